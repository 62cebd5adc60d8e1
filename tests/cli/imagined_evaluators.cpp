// Evaluators that look at no candidate, for tests of what tests evaluators.
#include <kernel_evolve/plugin.hpp>

using namespace kernel_evolve::sdk;

namespace {

class Imagined : public Resumable {
 public:
  using Resumable::Resumable;
  Outcome Step(const json& event) override {
    const std::string says = params().at("says");
    if (!IsStart(event)) return Outcome::Error("cancelled", "nobody waited for the oracle");
    if (says == "nothing") return Outcome::Effects({SleepEffect("s", 3600)});
    if (says == "unavailable" || says == "internal") {
      return Outcome::Error(says, "there is no oracle here");
    }
    const json& request = event.at("request");
    if (request.at("asked") == "task" && says == "no_trial") {
      return Outcome::Error("unavailable", "there is no oracle for tasks");
    }
    const bool win = says == "win";
    return EvaluatorDone({{"asked", request.at("asked")},
                          {"stage", "oracle"},
                          {"code", win ? "splendid" : "dull"},
                          {"ok", true},
                          {"correct", win},
                          {"win", win},
                          {"reason", "the oracle says so"},
                          {"metrics", {{"speedup", 2.0}}}});
  }
};

constexpr char kParams[] = R"({"type": "object", "properties": {
    "says": {"enum": ["win", "no_win", "nothing", "unavailable", "internal",
    "no_trial"], "default": "win"}},
    "additionalProperties": false})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("imagined_evaluators", "1.0.0",
                     Evaluator<Imagined>("imagined_model", "Says the same of all", kParams,
                                         R"({"class": "modelled"})"),
                     Evaluator<Imagined>("imagined_clock", "Says the same of all", kParams,
                                         R"({"class": "tape", "tries_tasks": true})"))
