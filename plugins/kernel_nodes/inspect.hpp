// The tool `inspect`: pages of facts that an author can look up, one file each. The topic is the
// file's name; its first line says what it holds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kernel_nodes {

// `pages` is the parameter `inspect`: [{"path", "text"}]. Throws PluginError (validation) when two
// pages have one name, or a page is empty.
void CheckPages(const nlohmann::json& pages);

// The tool's declaration. `pages` is not empty.
nlohmann::json InspectTool(const nlohmann::json& pages);

// The page, or a sentence with the topics there are.
std::string InspectAnswer(const nlohmann::json& pages, const nlohmann::json& arguments);

}  // namespace kernel_nodes
