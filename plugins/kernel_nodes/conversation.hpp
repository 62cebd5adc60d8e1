// What every conversation with a model is made of: tools, messages, and the structured copy of the
// task that providers without a language model read. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kernel_nodes {

// {"name", "description", "parameters"} of a tool whose arguments are `properties`; all of them are
// required but those named in `optional`.
nlohmann::json Tool(const char* name, const char* description, const nlohmann::json& properties,
                    const nlohmann::json& optional = nlohmann::json::array());
nlohmann::json TextSchema(const char* description);

// The tool that changes a candidate by search and replace. `with_candidate`: it takes the id of the
// candidate to change, too.
nlohmann::json EditTool(bool with_candidate);

// Whether `arguments` has a string that is not empty under `key`, and the sentence when not.
bool HasText(const nlohmann::json& arguments, const char* key);
std::string MissingText(const std::string& tool, const char* key);

// "submit_kernel or edit_kernel"
std::string ToolNames(const nlohmann::json& tools);

// Messages. SaidMessage echoes a canonical response, with what its service wants to see again.
nlohmann::json UserMessage(const std::string& text);
nlohmann::json SaidMessage(const nlohmann::json& response);
nlohmann::json ToolMessage(const nlohmann::json& call, const std::string& text);

// The request's `context`: what the messages say, as data. `start` is the node's start event, from
// which task, hints and the values of the input ports come.
nlohmann::json ContextOf(const char* purpose, const nlohmann::json& start);

// The value of an input port in a start event, or null.
const nlohmann::json& PortOf(const nlohmann::json& start, const char* port);

}  // namespace kernel_nodes
