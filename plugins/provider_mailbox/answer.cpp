#include "answer.hpp"

#include <algorithm>

namespace provider_mailbox {
namespace {

using nlohmann::json;

Answer Problem(const std::string& sentence) { return {nullptr, sentence}; }

const json* FindTool(const json& request, const std::string& name) {
  const auto tools = request.find("tools");
  if (tools == request.end()) return nullptr;
  for (const json& tool : *tools) {
    if (tool.value("name", "") == name) return &tool;
  }
  return nullptr;
}

std::string ToolNames(const json& request) {
  std::string names;
  for (const json& tool : request.value("tools", json::array())) {
    names += (names.empty() ? "" : ", ") + tool.value("name", "");
  }
  return names.empty() ? "none" : names;
}

bool HasType(const json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return true;
}

// What is wrong with the arguments of a call, or "".
std::string WrongArguments(const json& tool, const json& arguments) {
  const std::string name = tool.value("name", "");
  const json parameters = tool.value("parameters", json::object());
  const json properties = parameters.value("properties", json::object());
  for (const json& key : parameters.value("required", json::array())) {
    if (!arguments.contains(key)) {
      return "the tool " + name + " needs the argument '" + key.get<std::string>() + "'";
    }
  }
  for (const auto& [key, value] : arguments.items()) {
    const auto schema = properties.find(key);
    if (schema == properties.end()) {
      return "the tool " + name + " has no argument '" + key + "'";
    }
    const json type = schema->value("type", json());
    if (type.is_string() && !HasType(value, type)) {
      return "the argument '" + key + "' of the tool " + name + " must be of type " +
             type.get<std::string>();
    }
    const json choices = schema->value("enum", json());
    if (choices.is_array() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
      return "the argument '" + key + "' of the tool " + name + " must be one of " + choices.dump();
    }
  }
  return "";
}

// A call of the answer as a canonical one; `problem` says what is wrong with it.
json CallFrom(const json& given, size_t number, const json& request, std::string* problem) {
  const bool known = given.is_object() && (given.contains("tool") || given.contains("name"));
  const json name = known ? given.value(given.contains("tool") ? "tool" : "name", json()) : json();
  if (!name.is_string()) {
    *problem = "a call is written {\"tool\": \"NAME\", \"arguments\": {...}}";
    return nullptr;
  }
  const json* tool = FindTool(request, name);
  const json arguments = given.value("arguments", json::object());
  if (tool == nullptr) {
    *problem = "there is no tool '" + name.get<std::string>() +
               "' in this request; its tools are: " + ToolNames(request);
  } else if (!arguments.is_object()) {
    *problem = "the arguments of the tool " + name.get<std::string>() + " must be an object";
  } else {
    *problem = WrongArguments(*tool, arguments);
  }
  const json id = given.value("id", json());
  return {{"id", id.is_string() ? id : json("call_" + std::to_string(number))},
          {"name", name},
          {"arguments", arguments}};
}

bool NeedsTool(const json& request) {
  const json choice = request.value("tool_choice", json());
  return choice == "required" || choice.is_object();
}

json Response(const std::string& text, const json& calls) {
  return {{"text", text},
          {"reasoning", ""},
          {"tool_calls", calls},
          {"usage", {{"input_tokens", 0}, {"output_tokens", 0}}},
          {"finish_reason", calls.empty() ? "stop" : "tool_calls"},
          {"model", "mailbox"}};
}

Answer FromCalls(const std::string& text, const json& given, const json& request) {
  json calls = json::array();
  for (const json& one : given) {
    std::string problem;
    calls.push_back(CallFrom(one, calls.size() + 1, request, &problem));
    if (!problem.empty()) return Problem(problem);
  }
  if (calls.empty() && NeedsTool(request)) {
    return Problem("this request must be answered with a tool; its tools are: " +
                   ToolNames(request));
  }
  return {Response(text, calls), ""};
}

// "# Fused into one pass" -> "Fused into one pass"
std::string SummaryOf(const std::string& code) {
  const size_t begin = code.find_first_not_of("#! \t");
  const std::string line = code.substr(0, code.find('\n'));
  if (line.rfind('#', 0) != 0 || begin == std::string::npos || begin >= line.size()) {
    return "written by hand";
  }
  return line.substr(begin);
}

}  // namespace

Answer FromJson(const std::string& text, const json& request) {
  const json given = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (given.is_discarded()) return Problem("it is not JSON");
  if (given.is_array()) return FromCalls("", given, request);
  if (!given.is_object()) return Problem("it must be a JSON object");
  if (given.contains("tool")) return FromCalls("", json::array({given}), request);
  const json words = given.value("text", json(""));
  const json calls = given.value("tool_calls", json::array());
  if (!given.contains("text") && !given.contains("tool_calls")) {
    return Problem("it has neither 'tool', nor 'tool_calls', nor 'text'");
  }
  if (!words.is_string() || !calls.is_array()) {
    return Problem("'text' must be a string and 'tool_calls' a list");
  }
  return FromCalls(words, calls, request);
}

Answer FromPython(const std::string& code, const json& request) {
  const std::string tool = KernelTool(request);
  if (tool.empty()) {
    return Problem("this request does not ask for a kernel file; answer with a .json file");
  }
  const char* argument = tool == "submit_kernel" ? "code" : "candidate_code";
  const json call = {{"tool", tool},
                     {"arguments", {{argument, code}, {"summary", SummaryOf(code)}}}};
  return FromCalls("", json::array({call}), request);
}

std::string KernelTool(const json& request) {
  for (const char* name : {"submit_kernel", "validate_model"}) {
    if (FindTool(request, name) != nullptr) return name;
  }
  return "";
}

}  // namespace provider_mailbox
