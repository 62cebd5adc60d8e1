// The reducer's working parts. Internal to engine/.
#pragma once

#include <string>
#include <vector>

#include "core/engine/reducer.hpp"

namespace kernel_evolve::internal {

// One reduction: changes the state in place and appends commands. Lives for one event.
class Reduction {
 public:
  Reduction(const Plan& plan, State* state, std::vector<Command>* commands)
      : plan_(plan), state_(*state), commands_(*commands) {}

  void On(const RunStarted& event);
  void On(const StepDone& event);
  void On(const EffectDone& event);
  void On(const DeadlinePassed& event);
  void On(const Interrupted& event);
  void On(const JournalFailed& event);

 private:
  // reducer.cpp
  void Start(const std::string& node);
  void FinishNode(const graph::Node& node, const Json& done, int64_t visit);
  void Route(const graph::Node& node, const Json& result, int64_t visit);
  void Take(const graph::Node& node, size_t edge);
  Result<Json> CheckedResult(const graph::Node& node, const Json& given) const;
  Json Roots(const Json* result) const;
  void End(RunStatus status, std::string reason, std::optional<Error> error = {});
  void Fail(const std::string& node, const Error& error);
  void EndOnBudget(const std::string& budget);
  Activation* FindActive(const std::string& node, int64_t visit);
  void Forget(const std::string& node, int64_t visit);
  void Emit(Command command) { commands_.push_back(std::move(command)); }

  // reducer_effects.cpp
  void BeginEffects(Activation* activation, const Json& effects);
  void Prepare(Activation* activation, Pending* pending);
  void PrepareCall(Pending* pending);
  void PrepareEvaluation(Activation* activation, Pending* pending);
  void Dispatch(const Pending& pending);
  void Answer(Activation* activation);
  void Settle(Pending* pending);
  void TakeVerdict(Pending* pending);

  const Plan& plan_;
  State& state_;
  std::vector<Command>& commands_;
};

}  // namespace kernel_evolve::internal
