// Drawings of a graph as text, for `graph --mermaid` and `graph --dot`. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/source.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve::graph {

std::string ToMermaid(const Graph& graph);
std::string ToDot(const Graph& graph);

// [{"code", "severity", "file", "line", "column", "length", "message", "hint"?}, ...] for editors
// and CI. Line and column count from 1, the column in characters; 0 where there is no position.
Json DiagnosticsToJson(const std::vector<Diagnostic>& diagnostics);

}  // namespace kernel_evolve::graph
