#include "conversation.hpp"

#include <algorithm>

#include "records.hpp"

namespace kernel_nodes {

using nlohmann::json;

json Tool(const char* name, const char* description, const json& properties, const json& optional) {
  json required = json::array();
  for (const auto& [key, unused] : properties.items()) {
    if (std::find(optional.begin(), optional.end(), key) == optional.end()) required.push_back(key);
  }
  return {{"name", name},
          {"description", description},
          {"parameters",
           {{"type", "object"},
            {"properties", properties},
            {"required", required},
            {"additionalProperties", false}}}};
}

json TextSchema(const char* description) {
  return {{"type", "string"}, {"description", description}};
}

json EditTool(bool with_candidate) {
  const json edit = {{"type", "object"},
                     {"properties",
                      {{"search", TextSchema("Text that occurs exactly once in the candidate")},
                       {"replace", TextSchema("What stands there instead")}}},
                     {"required", {"search", "replace"}},
                     {"additionalProperties", false}};
  json properties = {{"edits", {{"type", "array"}, {"items", edit}, {"minItems", 1}}},
                     {"summary", TextSchema("One line: what is new in this candidate")}};
  if (!with_candidate) {
    return Tool("edit_kernel", "Changes the parent candidate by exact search and replace.",
                properties);
  }
  properties["candidate"] = TextSchema("Id of the candidate to change; default: the last one");
  return Tool("edit_kernel", "Changes a candidate by exact search and replace, then validates it.",
              properties, {"candidate", "summary"});
}

bool HasText(const json& arguments, const char* key) { return !Text(arguments, key).empty(); }

std::string MissingText(const std::string& tool, const char* key) {
  return tool + " needs a non-empty string `" + key + "`";
}

std::string ToolNames(const json& tools) {
  std::string out;
  for (const json& tool : tools) {
    out += (out.empty() ? "" : " or ") + tool.at("name").get<std::string>();
  }
  return out;
}

json UserMessage(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

json SaidMessage(const json& response) {
  json said = {{"role", "assistant"}, {"content", Text(response, "text")}};
  const json calls = response.value("tool_calls", json::array());
  if (!calls.empty()) said["tool_calls"] = calls;
  if (HasText(response, "reasoning")) said["reasoning"] = response["reasoning"];
  if (response.contains("raw") && !response["raw"].is_null()) said["raw"] = response["raw"];
  return said;
}

json ToolMessage(const json& call, const std::string& text) {
  return {{"role", "tool"}, {"tool_call_id", call.value("id", "")}, {"content", text}};
}

json ContextOf(const char* purpose, const json& start) {
  const auto list = [&start](const char* port) {
    return PortOf(start, port).is_array() ? PortOf(start, port) : json::array();
  };
  const json& best = PortOf(start, "best");
  const json& candidate = PortOf(start, "candidate");
  const json& verdict = PortOf(start, "verdict");
  json context = {{"purpose", purpose},
                  {"task", start.value("task", json())},
                  {"hints", start.at("with").value("hints", json::array())},
                  {"attempts", list("attempts")},
                  {"lessons", list("lessons")},
                  {"best", best},
                  {"parent", best.is_object() ? best : candidate},
                  {"last", nullptr},
                  {"start", nullptr},
                  {"analysis", Text(PortOf(start, "analysis"), "analysis")},
                  {"generation", start.value("visit", 1)}};
  if (candidate.is_object() && verdict.is_object()) {
    context["last"] = WithVerdict(candidate, verdict);
  }
  if (HasText(start.at("with"), "start")) context["start"] = start.at("with")["start"];
  return context;
}

const json& PortOf(const json& start, const char* port) {
  static const json null;
  const auto in = start.find("in");
  if (in == start.end() || !in->contains(port)) return null;
  return in->at(port);
}

}  // namespace kernel_nodes
