#include "letter.hpp"

#include <algorithm>

#include "answer.hpp"

namespace provider_mailbox {
namespace {

using nlohmann::json;

std::string ParameterLine(const std::string& name, const json& schema, bool required) {
  const json type = schema.value("type", json("any"));
  std::string line = "- `" + name + "` (" +
                     (type.is_string() ? type.get<std::string>() : type.dump()) +
                     (required ? ")" : ", optional)");
  const std::string description = schema.value("description", "");
  if (!description.empty()) line += ": " + description;
  if (schema.contains("items")) line += "\n  items: `" + schema["items"].dump() + "`";
  return line + "\n";
}

std::string ToolText(const json& tool) {
  std::string text =
      "### " + tool.value("name", "") + "\n" + tool.value("description", "") + "\n\n";
  const json parameters = tool.value("parameters", json::object());
  const json required = parameters.value("required", json::array());
  const json properties = parameters.value("properties", json::object());
  for (const auto& [name, schema] : properties.items()) {
    const bool must = std::find(required.begin(), required.end(), name) != required.end();
    text += ParameterLine(name, schema, must);
  }
  return text + "\n";
}

std::string MessageText(const json& message) {
  std::string text =
      "### " + message.value("role", "") + "\n" + message.value("content", "") + "\n";
  for (const json& call : message.value("tool_calls", json::array())) {
    text += "\nCalls `" + call.value("name", "") + "` with\n```json\n" +
            call.value("arguments", json::object())
                .dump(2, ' ', false, json::error_handler_t::replace) +
            "\n```\n";
  }
  return text + "\n";
}

}  // namespace

std::string Letter(const std::string& number, const std::string& title, const json& request) {
  const json tools = request.value("tools", json::array());
  const std::string first = tools.empty() ? "" : tools[0].value("name", "");
  const json choice = request.value("tool_choice", json());
  const bool must = choice == "required" || choice.is_object();
  std::string text = "# Request " + number + (title.empty() ? "" : " for " + title) + "\n\n";
  text += "Read the messages below and put the answer beside this file, in one of these:\n";
  if (const std::string tool = KernelTool(request); !tool.empty()) {
    text += "- `" + number + ".answer.py`: a whole kernel file, the same as a call of `" + tool +
            "`; a comment on its first line becomes the summary.\n";
  }
  if (!tools.empty()) {
    text += "- `" + number + ".answer.json`: `{\"tool\": \"" + first +
            "\", \"arguments\": {...}}`, or a list of such calls.\n";
  }
  if (!must)
    text += "- `" + number + ".answer.json`: `{\"text\": \"...\"}`, words without a tool.\n";
  text +=
      "\nWrite it under another name first and rename it when it is complete. If it can't be used, "
      "`" +
      number + ".problem.txt` says why, and another one is waited for.\n\n";
  if (!tools.empty()) text += "## Tools\n\n";
  for (const json& tool : tools) text += ToolText(tool);
  text += "## Messages\n\n";
  for (const json& message : request.value("messages", json::array())) text += MessageText(message);
  return text;
}

}  // namespace provider_mailbox
