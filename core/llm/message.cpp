#include "core/llm/message.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

Error BadRequest(const std::string& where, const std::string& what) {
  return Failed(ErrorClass::kValidation, "request." + where + ": " + what);
}

Error BadResponse(const std::string& what) { return Failed(ErrorClass::kInvalidOutput, what); }

std::string At(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

template <size_t N>
bool IsOneOf(const std::string& text, const std::array<const char*, N>& names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text == name; });
}

constexpr std::array<const char*, 4> kRoles = {"system", "user", "assistant", "tool"};
constexpr std::array<const char*, 4> kFinishReasons = {"tool_calls", "stop", "length",
                                                       "content_filter"};
constexpr std::array<const char*, 6> kRequestMembers = {"messages", "tools", "tool_choice",
                                                        "sampling", "seed",  "context"};

// The form that every known service accepts.
bool IsToolName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

Status CheckMessage(const Json& message, const std::string& where) {
  if (!message.is_object()) return BadRequest(where, "expected an object");
  const std::string role = message.Text("role");
  if (!IsOneOf(role, kRoles)) {
    return BadRequest(where + ".role", "expected system, user, assistant or tool");
  }
  if (!message["content"].is_string()) return BadRequest(where + ".content", "expected text");
  if (role == "tool" && message.Text("tool_call_id").empty()) {
    return BadRequest(where + ".tool_call_id", "a tool's message names the call that it answers");
  }
  const Json& calls = message["tool_calls"];
  if (calls.is_null()) return {};
  if (role != "assistant" || !calls.is_array()) {
    return BadRequest(where + ".tool_calls", "an array, in messages of the assistant only");
  }
  for (const Json& call : calls.array()) {
    if (call.Text("id").empty() || call.Text("name").empty() || !call["arguments"].is_object()) {
      return BadRequest(where + ".tool_calls",
                        "a call has an id, a name and an object 'arguments'");
    }
  }
  return {};
}

Status CheckTools(const Json& tools) {
  if (tools.is_null()) return {};
  if (!tools.is_array()) return BadRequest("tools", "expected an array");
  std::set<std::string> names;
  for (size_t i = 0; i < tools.array().size(); ++i) {
    const Json& tool = tools.array()[i];
    const std::string name = tool.Text("name");
    if (!IsToolName(name)) {
      return BadRequest(At("tools", i) + ".name", "expected 1 to 64 letters, digits, '_' or '-'");
    }
    if (!names.insert(name).second) {
      return BadRequest(At("tools", i) + ".name", "'" + name + "' comes twice");
    }
    if (!tool["parameters"].is_object()) {
      return BadRequest(At("tools", i) + ".parameters", "expected a JSON Schema object");
    }
  }
  return {};
}

const Json* FindTool(const Json& request, const std::string& name) {
  const Json& tools = request["tools"];
  if (!tools.is_array()) return nullptr;
  for (const Json& tool : tools.array()) {
    if (tool.Text("name") == name) return &tool;
  }
  return nullptr;
}

Status CheckToolChoice(const Json& request) {
  const Json& choice = request["tool_choice"];
  if (choice.is_null() || choice == Json("auto")) return {};
  if (choice == Json("required")) {
    if (request["tools"].size() > 0) return {};
    return BadRequest("tool_choice", "'required' without any tool");
  }
  if (choice.is_object() && FindTool(request, choice.Text("name")) != nullptr) return {};
  return BadRequest("tool_choice", "expected auto, required or {name} of a tool in 'tools'");
}

bool HasType(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "integer") return value.is_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return true;  // a type that we do not know is the service's business
}

Status CheckArgument(const Json& schema, const Json& value, const std::string& where) {
  const Json& type = schema["type"];
  std::vector<std::string> types;
  if (type.is_string()) types.push_back(type.string());
  if (type.is_array()) {
    for (const Json& item : type.array()) types.push_back(item.is_string() ? item.string() : "");
  }
  const bool fits = types.empty() || std::any_of(types.begin(), types.end(), [&](const auto& name) {
                      return HasType(value, name);
                    });
  if (!fits) {
    return BadResponse(where + ": expected " + Join(types, " or ") + ", got " + value.type_name());
  }
  const Json& allowed = schema["enum"];
  if (!allowed.is_array()) return {};
  const bool listed = std::any_of(allowed.array().begin(), allowed.array().end(),
                                  [&value](const Json& item) { return item == value; });
  if (!listed) return BadResponse(where + ": expected one of " + allowed.Dump());
  return {};
}

bool ToolIsRequired(const Json& request) {
  const Json& choice = request["tool_choice"];
  return choice == Json("required") || choice.is_object();
}

Status CheckCalls(const Json& request, const Json& calls) {
  std::set<std::string> ids;
  for (const Json& call : calls.array()) {
    if (call.Text("id").empty() || call.Text("name").empty()) {
      return BadResponse("a tool call in the response lacks its id or its name");
    }
    if (!ids.insert(call.Text("id")).second) {
      return BadResponse("two tool calls in the response have the id '" + call.Text("id") + "'");
    }
    const std::string name = call.Text("name");
    if (!call["malformed"].is_null()) {
      return BadResponse("the arguments of the tool '" + name + "' are not one JSON object");
    }
    const Json* tool = FindTool(request, name);
    if (tool == nullptr) {
      std::vector<std::string> offered;
      if (request["tools"].is_array()) {
        for (const Json& item : request["tools"].array()) offered.push_back(item.Text("name"));
      }
      return BadResponse("the model called the tool '" + name + "', which was not offered" +
                         (offered.empty() ? "" : "; the tools are: " + Join(offered, ", ")));
    }
    Status fits = CheckArguments((*tool)["parameters"], call["arguments"], name);
    if (!fits.ok()) return fits;
  }
  const Json& choice = request["tool_choice"];
  if (!choice.is_object()) return {};
  for (const Json& call : calls.array()) {
    if (call.Text("name") == choice.Text("name")) continue;
    return BadResponse("the model called the tool '" + call.Text("name") + "' where '" +
                       choice.Text("name") + "' was asked for");
  }
  return {};
}

}  // namespace

Status CheckRequest(const Json& request) {
  if (!request.is_object()) return Failed(ErrorClass::kValidation, "request: expected an object");
  for (const auto& [key, value] : request.object()) {
    if (!IsOneOf(key, kRequestMembers)) return BadRequest(key, "unknown key");
  }
  const Json& messages = request["messages"];
  if (!messages.is_array() || messages.size() == 0) {
    return BadRequest("messages", "expected at least one message");
  }
  for (size_t i = 0; i < messages.array().size(); ++i) {
    Status checked = CheckMessage(messages.array()[i], At("messages", i));
    if (!checked.ok()) return checked;
  }
  if (Status tools = CheckTools(request["tools"]); !tools.ok()) return tools;
  if (Status choice = CheckToolChoice(request); !choice.ok()) return choice;
  for (const char* key : {"sampling", "context"}) {
    if (!request[key].is_null() && !request[key].is_object()) {
      return BadRequest(key, "expected an object");
    }
  }
  if (!request["seed"].is_null() && !request["seed"].is_integer()) {
    return BadRequest("seed", "expected an integer");
  }
  return {};
}

Status CheckArguments(const Json& parameters, const Json& arguments, const std::string& tool) {
  if (!arguments.is_object()) {
    return BadResponse("the arguments of the tool '" + tool + "' are no object");
  }
  // Names an argument in a sentence.
  const auto named = [&tool](const std::string& name) {
    std::string text = "the argument '";
    text.append(name).append("' of the tool '").append(tool).append("'");
    return text;
  };
  const Json& properties = parameters["properties"];
  const Json& required = parameters["required"];
  if (required.is_array()) {
    for (const Json& name : required.array()) {
      if (!name.is_string() || arguments.contains(name.string())) continue;
      return BadResponse(named(name.string()) + " is missing");
    }
  }
  const bool closed = parameters["additionalProperties"] == Json(false);
  for (const auto& [name, value] : arguments.object()) {
    const std::string place = named(name);
    if (!properties.contains(name)) {
      if (closed) return BadResponse(place + " is unknown");
      continue;
    }
    Status fits = CheckArgument(properties[name], value, place);
    if (!fits.ok()) return fits;
  }
  return {};
}

Result<Json> CheckResponse(const Json& request, const Json& response) {
  if (!response.is_object()) return BadResponse("the response is no object");
  Json out = response;
  for (const char* key : {"text", "reasoning", "model", "finish_reason"}) {
    if (out[key].is_null()) out[key] = "";
    if (!out[key].is_string()) {
      return BadResponse("the response has a '" + std::string(key) + "' that is no text");
    }
  }
  if (out["tool_calls"].is_null()) out["tool_calls"] = Json::Arr();
  if (!out["tool_calls"].is_array()) return BadResponse("the response's tool_calls are no array");
  const TokenUsage usage = UsageOf(response);
  Json counted = out["usage"].is_object() ? out["usage"] : Json::Obj();
  counted["input_tokens"] = usage.input;
  counted["output_tokens"] = usage.output;
  out["usage"] = std::move(counted);

  const bool calls = out["tool_calls"].size() > 0;
  if (out["finish_reason"] == Json("")) out["finish_reason"] = calls ? "tool_calls" : "stop";
  const std::string reason = out.Text("finish_reason");
  if (!IsOneOf(reason, kFinishReasons)) {
    return BadResponse("the response has the finish_reason '" + reason +
                       "', which is none of tool_calls, stop, length and content_filter");
  }
  Status checked = CheckCalls(request, out["tool_calls"]);
  if (checked.ok() && !calls && ToolIsRequired(request)) {
    checked = BadResponse("the model answered without calling a tool although one was required");
  }
  if (checked.ok()) return out;
  if (reason == "content_filter") {
    return BadResponse("the service's content filter withheld the answer");
  }
  if (reason == "length") {
    return BadResponse("the response was cut off by the length limit: " + checked.error().message);
  }
  return checked.error();
}

TokenUsage UsageOf(const Json& response) {
  const Json& usage = response["usage"];
  return {std::max<int64_t>(usage.Integer("input_tokens"), 0),
          std::max<int64_t>(usage.Integer("output_tokens"), 0)};
}

int64_t EstimateInputTokens(const Json& request) {
  const size_t bytes = request["messages"].Dump().size() + request["tools"].Dump().size();
  return static_cast<int64_t>(bytes / 4);
}

}  // namespace kernel_evolve
