#include "core/graph/graph.hpp"

#include "core/base/text.hpp"
#include "core/graph/fields.hpp"
#include "core/graph/schema.hpp"

namespace kernel_evolve::graph {
namespace {

Error Wrong(std::string message) { return Failed(ErrorClass::kValidation, std::move(message)); }

Status CheckRange(const InputDecl& input, const Json& value) {
  if (!value.is_number()) return {};
  const auto shown = [](double bound) { return Json(bound).Dump(); };
  if (input.minimum && value.number() < *input.minimum) {
    return BadInput("input '" + input.name + "' must be at least " + shown(*input.minimum));
  }
  if (input.maximum && value.number() > *input.maximum) {
    return BadInput("input '" + input.name + "' must be at most " + shown(*input.maximum));
  }
  return {};
}

}  // namespace

const Node* Graph::Find(const std::string& node) const {
  for (const Node& each : nodes) {
    if (each.name == node) return &each;
  }
  return nullptr;
}

Result<Json> EvaluateWith(const Node& node, const Json& roots) {
  Result<Json> value = node.with.Evaluate(roots);
  if (!value.ok()) {
    return Wrong("node '" + node.name + "', 'with': " + value.error().message);
  }
  if (node.with.constant() || node.params_schema == nullptr) return value;
  const Status fits = CheckSchema(*node.params_schema, *value, "node '" + node.name + "', with");
  if (!fits.ok()) return fits.error();
  return value;
}

Result<Json> BindInputs(const Graph& graph, const Json& given) {
  Json bound = Json::Obj();
  if (given.is_object()) {
    for (const auto& [name, value] : given.object()) {
      if (graph.inputs.count(name) > 0) continue;
      const std::string hint = Suggest(name, KeysOf(graph.inputs));
      return BadInput("graph '" + graph.name + "' has no input " + Quoted(name) +
                      (hint.empty() ? "" : "; " + hint));
    }
  }
  for (const auto& [name, input] : graph.inputs) {
    if (!given.contains(name)) {
      if (!input.default_value) {
        return BadInput("graph '" + graph.name + "' needs the input '" + name + "' (" +
                        ValueTypeName(input.type) + ")");
      }
      bound[name] = *input.default_value;
      continue;
    }
    const Json& value = given[name];
    Status fits = CheckValue(input.type, value);
    if (!fits.ok()) return BadInput("input '" + name + "': " + fits.error().message);
    fits = CheckRange(input, value);
    if (!fits.ok()) return fits.error();
    bound[name] = value;
  }
  return bound;
}

Status ApplyPatch(const Graph& graph, const Node& node, const Json& out, Json* state) {
  Json next = *state;
  if (next.is_null()) next = Json::Obj();
  if (!out.is_object() && !out.is_null()) {
    return Failed(ErrorClass::kInvalidOutput,
                  "node '" + node.name + "' gave no object for its ports");
  }
  if (out.is_null()) return {};
  for (const auto& [port, value] : out.object()) {
    const auto bound = node.out.find(port);
    if (bound == node.out.end()) {
      return Failed(ErrorClass::kInvalidOutput, "node '" + node.name + "' wrote to " +
                                                    Quoted(port) + ", which is no port of it");
    }
    const Channel& channel = graph.state.at(bound->second);
    const Json* old = next.contains(channel.name) ? &std::as_const(next)[channel.name] : nullptr;
    Result<Json> merged = MergeChannel(channel, old, value);
    if (!merged.ok()) return Wrong("node '" + node.name + "': " + merged.error().message);
    if (!merged->is_null()) next[channel.name] = std::move(*merged);
  }
  *state = std::move(next);
  return {};
}

Result<Json> ReadPorts(const Graph& graph, const Node& node, const Json& state) {
  Json ports = Json::Obj();
  for (const auto& [port, channel] : node.in) {
    if (state.contains(channel)) {
      ports[port] = state[channel];
      continue;
    }
    const auto required = node.required.find(port);
    if (required != node.required.end() && required->second) {
      return Wrong("node '" + node.name + "' of graph '" + graph.name + "' needs channel '" +
                   channel + "', which nothing has written yet");
    }
  }
  return ports;
}

}  // namespace kernel_evolve::graph
