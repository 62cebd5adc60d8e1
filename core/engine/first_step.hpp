// What a node would ask for first, outside of any run: for a look at a prompt before it is sent.
#pragma once

#include <string>

#include "core/base/json.hpp"
#include "core/engine/clock.hpp"
#include "core/engine/ports.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve {

// Where the look is taken from.
struct Moment {
  Json inputs = Json::Obj();  // what the user gave; defaults are filled in
  Json task;                  // null without one; also bound to the graph's one input of that type
  Json channels = Json::Obj();  // the state: channel -> value
};

// Starts `node` (which the graph has) as the run's reducer would, and returns the outcome of its
// first step: {"effects": [...]}, {"done": ...} or {"error": ...}. Nothing is carried out.
// Errors: validation for inputs, channels or ports that are wrong or missing, and whatever the
// plugin says.
Result<Json> FirstStep(const graph::Graph& graph, const std::string& node, const Moment& moment,
                       InstanceFactory& factory, Clock& clock);

}  // namespace kernel_evolve
