// Prompts: mustache templates from the graph's folder, filled with what a node knows.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace kernel_nodes {

// What a template may name. A name that is set and not empty also switches `has_<name>` sections
// on.
using PromptData = std::map<std::string, std::string>;

// Every name that PromptData can have.
const PromptData& EmptyPromptData();

// Checks the template's syntax and names; throws PluginError (validation) with the template's path,
// the name and the nearest known ones. `file` is {"path", "text"}.
void CheckPrompt(const nlohmann::json& file);

// The same bytes for the same template and data. Text is inserted as it is, never escaped.
std::string RenderPrompt(const nlohmann::json& file, const PromptData& data);

// Collects the data from a node's start event: task, hints, state ports.
PromptData PromptDataOf(const nlohmann::json& start);

// A verdict as the author reads it: a line of figures, then the evaluator's feedback.
std::string VerdictText(const nlohmann::json& verdict);

}  // namespace kernel_nodes
