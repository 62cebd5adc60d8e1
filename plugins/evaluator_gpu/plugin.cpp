// The evaluator `gpu`: measures a candidate on an NVIDIA GPU, in two calls of the worker.
//
// 1. record: a process of its own, where the candidate's code runs. It yields a tape of what the
//    candidate did, or the reason why there is none.
// 2. judge: a trusted process that never loads the candidate. It tries the task, has the tape run
//    by ke_replay on other data, compares, times and writes the verdict.
// So a candidate's Python never runs where there is a GPU, a clock or data that it is judged on.
#include <kernel_evolve/plugin_evaluator.hpp>

namespace {

using namespace kernel_evolve::sdk;

class Gpu : public RecordThenJudge {
 public:
  using RecordThenJudge::RecordThenJudge;

 protected:
  Judge judge() const override {
    Judge by;
    by.module = "evaluator_gpu.judge";
    by.session = "gpu";
    by.verdict_class = "tape";
    by.times = "measured";
    // No limit of memory: CUDA reserves addresses for all of the machine's.
    by.limits = {{"gpu", true}, {"memory_mb", 0}};
    by.more = {{"compile_baseline", params().at("compile_baseline")},
               {"reuse_verdicts", params().at("reuse_verdicts")}};
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
                  "description": "Memory that the process of the candidate may use."},
    "compile_baseline": {"type": "boolean", "default": true,
                         "description": "Also compare with torch.compile."},
    "reuse_verdicts": {"type": "boolean", "default": true,
                       "description": "Whether a candidate with the machine code and launches of an earlier one gets its verdict."}
  },
  "additionalProperties": false
})";

constexpr char kInterface[] = R"({"class": "tape", "blocking": false, "tries_tasks": true})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("evaluator_gpu", "1.0.0",
                     Evaluator<Gpu>("gpu", "Measures kernels on an NVIDIA GPU", kParams,
                                    kInterface))
