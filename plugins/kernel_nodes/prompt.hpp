// Prompts: mustache templates from the graph's folder, filled with what a node knows, within a
// budget of tokens.
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

// RenderPrompt with pieces of `data` shortened until the text fits into `bytes`. What is cut, in
// this order, and within each group the longest first: attempts, lessons (the oldest go first), the
// analysis and the last feedback; then the last candidate's code and the facts; then the best
// candidate's code and the hints. Each cut leaves a mark. The template's own text and the task are
// never cut, so a long task may still exceed the budget.
std::string FitPrompt(const nlohmann::json& file, const PromptData& data, size_t bytes);

// Collects the data from a node's start event: task, facts, hints, state ports.
PromptData PromptDataOf(const nlohmann::json& start);

// The whole prompt of a node that was started so: its template, filled and fitted.
std::string PromptFor(const nlohmann::json& start);

}  // namespace kernel_nodes
