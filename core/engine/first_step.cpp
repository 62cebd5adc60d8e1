#include "core/engine/first_step.hpp"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/text.hpp"
#include "core/engine/host_services.hpp"
#include "core/engine/reducer.hpp"
#include "core/engine/scheduler.hpp"

namespace kernel_evolve {
namespace {

Result<Json> BindAll(const graph::Graph& graph, const Moment& moment) {
  Json inputs = moment.inputs;
  std::vector<std::string> tasks;
  for (const auto& [name, input] : graph.inputs) {
    if (input.type == graph::ValueType::kTask) tasks.push_back(name);
  }
  if (!moment.task.is_null() && tasks.size() == 1 && !inputs.contains(tasks[0])) {
    inputs[tasks[0]] = moment.task;
  }
  return graph::BindInputs(graph, inputs);
}

Status CheckChannels(const graph::Graph& graph, const Json& channels) {
  if (!channels.is_object()) return BadInput("the state must be an object of channels");
  std::vector<std::string> known;
  for (const auto& [name, unused] : graph.state) known.push_back(name);
  for (const auto& [name, value] : channels.object()) {
    const auto channel = graph.state.find(name);
    if (channel == graph.state.end()) {
      const auto nearest = Nearest(name, known);
      return BadInput("the graph '" + graph.name + "' has no channel '" + name + "'" +
                      (nearest ? "; did you mean '" + *nearest + "'?" : ".") +
                      " Its channels are: " + Join(known, ", ") + ".");
    }
    const Status fits = graph::CheckValue(channel->second.type, value);
    if (!fits.ok()) return BadInput("channel '" + name + "': " + fits.error().message);
  }
  return {};
}

}  // namespace

Result<Json> FirstStep(const graph::Graph& graph, const std::string& node, const Moment& moment,
                       InstanceFactory& factory, Clock& clock) {
  Result<Json> inputs = BindAll(graph, moment);
  if (!inputs) return inputs.error();
  if (Status fits = CheckChannels(graph, moment.channels); !fits.ok()) return fits.error();

  // The same graph, begun at that node: the reducer makes the start event.
  graph::Graph begun = graph;
  begun.start = node;
  Plan plan;
  plan.graph = &begun;
  plan.inputs = *std::move(inputs);
  plan.task = moment.task;
  State state = InitialState(plan);
  state.channels = moment.channels;
  std::vector<Command> commands;
  state = Reduce(plan, std::move(state), RunStarted{}, &commands);
  if (state.error) return *state.error;
  const StepNode* step = nullptr;
  for (const Command& command : commands) {
    if (const auto* found = std::get_if<StepNode>(&command)) step = found;
  }
  if (step == nullptr) return Failed(ErrorClass::kBudget, state.reason);

  const TypeInfo* type = factory.Find(TypeKind::kNode, begun.Find(node)->uses);
  if (type == nullptr) {
    return BadInput("the node '" + node + "' uses '" + begun.Find(node)->uses +
                    "', which no plugin offers");
  }
  auto handles = std::make_shared<internal::RunHandles>();
  handles->clock = &clock;
  handles->mailbox = std::make_shared<Mailbox>();
  auto host =
      std::make_shared<internal::InstanceHost>(handles, Json::Obj(), std::set<std::string>());
  const Json context = Json::Obj({{"scratch_dir", ""}, {"seed", 0}});
  auto instance =
      factory.Create(*type, internal::ConfigFor(*type, step->params, context), std::move(host));
  if (!instance) return instance.error();
  return (*instance)->Step(step->event);
}

}  // namespace kernel_evolve
