// From a YAML document to a checked graph, or to every error of meaning in it.
// Reads files; keeps nothing open; thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/source.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve::graph {

// A graph exactly when there are no diagnostics. Diagnostics are sorted by position; `source` is
// the document's text, for FormatDiagnostic. Codes are listed in ERRORS.md.
struct LoadedGraph {
  std::optional<Graph> graph;
  std::vector<Diagnostic> diagnostics;
  std::string source;
};

// Installed plugins: id -> version. Used for the document's `requires`.
using PluginVersions = std::map<std::string, std::string>;

// `root` is the folder that files named by the graph must stay inside. Without `plugins`, the
// document's `requires` is checked for its form only.
LoadedGraph LoadGraph(const std::filesystem::path& file, const std::filesystem::path& root,
                      const NodeTypeCatalog& catalog, const PluginVersions* plugins = nullptr);

// The same for text that is not in a file; `name` stands in the diagnostics.
LoadedGraph LoadGraphText(const std::string& text, const std::string& name,
                          const std::filesystem::path& root, const NodeTypeCatalog& catalog,
                          const PluginVersions* plugins = nullptr);

}  // namespace kernel_evolve::graph
