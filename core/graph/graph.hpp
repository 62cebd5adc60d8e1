// A checked graph: what the loader makes of a YAML document and the engine runs.
//
// Plain data, immutable after loading, safe to share between threads. Everything a name refers to
// has been checked: the engine never meets an unknown node, port, channel or model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/base/source.hpp"
#include "core/expr/expr.hpp"
#include "core/graph/state.hpp"
#include "core/graph/template.hpp"

namespace kernel_evolve::graph {

// Where an edge may lead besides a node: the end of the run.
inline constexpr char kEnd[] = "end";

struct Port {
  std::string name;
  ValueType type = ValueType::kObject;
  bool required = true;  // of an input: a node cannot start while its channel is absent
};

// What a plugin's manifest says of a node type.
struct NodeTypeInfo {
  std::string name;    // "kernel/generate"
  Json params_schema;  // JSON Schema subset for `with`
  std::vector<Port> in;
  std::vector<Port> out;
  std::map<std::string, ValueType> result;  // members of `result` on the node's own edges
  std::vector<std::string> labels;          // values of `result.label`; none: no such member
};

using NodeTypeCatalog = std::map<std::string, NodeTypeInfo>;

// One way out of a node. Edges are tried in order; the first whose condition holds is taken.
struct Edge {
  std::optional<expr::Program> when;  // nothing: always
  bool is_else = false;
  std::string to;                     // a node's name, or kEnd
  std::optional<int64_t> max_visits;  // how often the edge may be taken in a run
  SourcePos pos;
  std::string text;  // the condition as written, "else", or ""
};

struct Node {
  std::string name;
  std::string uses;
  WithTemplate with;
  std::map<std::string, std::string> in;   // port -> channel, for every port of the type
  std::map<std::string, std::string> out;  // port -> channel, for every port of the type
  std::map<std::string, bool> required;    // input port -> must its channel be there
  std::vector<Edge> next;
  SourcePos pos;
  std::shared_ptr<const Json> params_schema;
};

struct InputDecl {
  std::string name;
  ValueType type = ValueType::kString;
  std::optional<Json> default_value;
  std::optional<double> minimum;
  std::optional<double> maximum;
  std::string description;
};

struct ModelDecl {
  std::string name;
  std::vector<std::string> needs;  // capabilities the provider must have
};

// Limits of a run; nothing means unlimited. Wall time in seconds, cost in the profile's currency.
struct Budget {
  std::optional<double> wall_s;
  std::optional<double> cost;
  std::optional<int64_t> steps;
  std::optional<int64_t> llm_calls;
  std::optional<int64_t> tokens;
  std::optional<int64_t> evaluations;
};

struct Graph {
  std::string name;
  std::string description;
  std::string path;    // as given to the loader
  std::string source;  // the document's text
  std::string hash;    // over the document and every file that it names
  std::map<std::string, std::string> requires_plugins;  // plugin id -> version range
  std::map<std::string, InputDecl> inputs;
  std::map<std::string, ModelDecl> models;
  Budget budget;
  std::map<std::string, Channel> state;  // declared and implicit channels
  std::string start;
  std::vector<Node> nodes;  // in document order

  // Nothing for a name that is no node (kEnd is none).
  const Node* Find(const std::string& node) const;
};

// The roots an expression sees, which the engine passes as one JSON object:
//   inputs  every declared input
//   state   the channels that have been written; an absent channel is left out
//   result  what the node just returned as its result (edges only; absent for `with`), plus
//           `label` for node types with labels
//   visits  how often each node has been started, 0 included
//   budget  {"used": {wall, steps, llm_calls, tokens, cost, evaluations},
//            "left": the same names, only those that have a limit}; wall in seconds
//   run     {"id": text, "graph": text, "seed": integer, "step": integer}

// The node's parameters: templates evaluated, defaults of the schema filled in, every `x-ke: file`
// replaced by {"path", "text"}. Fails with class `validation`; the message names the parameter.
Result<Json> EvaluateWith(const Node& node, const Json& roots);

// Checks the given inputs against the graph's declarations and fills in defaults. Fails with class
// `validation`, exit 2, on an unknown input, a missing one, a wrong type or one out of range.
Result<Json> BindInputs(const Graph& graph, const Json& given);

// Merges what a node returned for its output ports ({port: value}) into `state` (channel -> value),
// all of it or, on an error, none of it. Absent channels are left out of `state`.
Status ApplyPatch(const Graph& graph, const Node& node, const Json& out, Json* state);

// The values of a node's input ports, absent ones left out. Fails with class `validation` when a
// required port's channel is absent.
Result<Json> ReadPorts(const Graph& graph, const Node& node, const Json& state);

}  // namespace kernel_evolve::graph
