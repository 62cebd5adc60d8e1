// The evaluator `simulator`: judges a candidate without a GPU, in two calls of the worker.
//
// 1. record: a process of its own, where the candidate's code runs. It yields a tape of what the
//    candidate did, or the reason why there is none.
// 2. judge: a trusted process that never loads the candidate. It tries the task, executes the
//    tape on other data, compares, models the time and writes the verdict.
// So a candidate never sees the data that it is judged on.
#include <kernel_evolve/plugin_evaluator.hpp>

namespace {

using namespace kernel_evolve::sdk;

class Simulator : public RecordThenJudge {
 public:
  using RecordThenJudge::RecordThenJudge;

 protected:
  Judge judge() const override {
    Judge by;
    by.module = "evaluator_simulator.judge";
    by.session = "judge";
    by.verdict_class = "modelled";
    by.times = "modelled";
    by.limits = {{"memory_mb", params().at("memory_mb")}};
    return by;
  }
};

constexpr char kParams[] = R"({
  "type": "object",
  "properties": {
    "record_deadline_s": {"type": "number", "minimum": 1, "default": 60,
                          "description": "Seconds that the candidate may run while recorded."},
    "judge_deadline_s": {"type": "number", "minimum": 1, "default": 600,
                         "description": "Seconds that one judgement may take."},
    "memory_mb": {"type": "integer", "minimum": 256, "default": 16384,
                  "description": "Memory that each of the two processes may use."}
  },
  "additionalProperties": false
})";

constexpr char kInterface[] = R"({"class": "modelled", "blocking": false, "tries_tasks": true})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("evaluator_simulator", "1.0.0",
                     Evaluator<Simulator>("simulator",
                                          "Judges kernels on the CPU; the times are modelled",
                                          kParams, kInterface))
