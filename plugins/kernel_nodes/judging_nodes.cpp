#include "judging_nodes.hpp"

#include "records.hpp"

namespace kernel_nodes {

using kernel_evolve::sdk::EvaluateEffect;
using kernel_evolve::sdk::IsStart;
using kernel_evolve::sdk::NodeDone;
using kernel_evolve::sdk::Outcome;
using kernel_evolve::sdk::Results;
using nlohmann::json;

Outcome CompileNode::Step(const json& event) {
  if (IsStart(event)) {
    candidate_ = event.at("in").at("candidate");
    return Outcome::Effects({EvaluateEffect("verdict", candidate_, "compile")});
  }
  const json verdict = Results(event).Value("verdict");
  const bool ok = verdict.value("ok", false);
  json out = {{"verdict", verdict}};
  // What compiles gets its line of history from the evaluation that follows.
  if (!ok) out["attempts"] = json::array({AttemptOf(candidate_, verdict)});
  return NodeDone(std::move(out), {{"ok", ok}});
}

Outcome EvaluateNode::Step(const json& event) {
  if (IsStart(event)) {
    candidate_ = event.at("in").at("candidate");
    return Outcome::Effects({EvaluateEffect("verdict", candidate_, "full")});
  }
  const json verdict = Results(event).Value("verdict");
  const bool correct = verdict.contains("correct") && verdict["correct"] == true;
  const json judged = WithVerdict(candidate_, verdict);
  json out = {{"verdict", verdict}, {"attempts", json::array({AttemptOf(candidate_, verdict)})}};
  if (correct) out["best"] = judged;
  return NodeDone(std::move(out), {{"ok", verdict.value("ok", false)},
                                   {"correct", correct},
                                   {"win", verdict.value("win", false)},
                                   {"speedup", judged.value("speedup", 0.0)}});
}

Outcome StopNode::Step(const json& event) {
  return Outcome::Error("cancelled", event.at("with").value("reason", "the graph stopped the run"));
}

}  // namespace kernel_nodes
