// The evaluator `gpu`: measures a candidate on an NVIDIA GPU, in two calls of the worker.
//
// 1. record: a process of its own, where the candidate's code runs. It yields a tape of what the
//    candidate did, or the reason why there is none.
// 2. judge: a trusted process that never loads the candidate. It tries the task, has the tape run
//    by ke_replay on other data, compares, times and writes the verdict.
// So a candidate's Python never runs where there is a GPU, a clock or data that it is judged on.
#include <cstdint>
#include <cstdio>
#include <kernel_evolve/plugin_coroutine.hpp>
#include <string>

namespace {

using namespace kernel_evolve::sdk;

// One judge process per task source: it keeps the task's references between candidates.
std::string JudgeSession(const std::string& source) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : source) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  char text[32];
  std::snprintf(text, sizeof text, "gpu:%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// The process that ran the candidate hung, died or flooded its output. Any other failure (a mistake
// of the task, a missing module, Ctrl-C) has nothing to do with the candidate.
bool IsTheCandidates(const json& error) {
  const std::string error_class = error.at("class");
  return error_class == "timeout" || error_class == "internal" || error_class == "invalid_output";
}

// A task that passed its trial, in the form of a verdict.
json TaskVerdict(const json& trial) {
  char text[160];
  std::snprintf(
      text, sizeof text, "the task is sound; eager takes %.4g ms (measured), judged as %s",
      trial.at("original_time").get<double>(), trial.at("precision").get<std::string>().c_str());
  return {{"format", 1},  {"class", "tape"},    {"asked", "task"}, {"stage", "done"},
          {"ok", true},   {"correct", nullptr}, {"reason", text},  {"feedback", trial.at("notes")},
          {"win", false}, {"task", trial}};
}

// What recording would have said, had it lived.
json Unrecorded(const json& error) {
  return {{"ok", false},
          {"stage", "correctness"},
          {"code", error.at("class") == "timeout" ? "timeout" : "crashed"},
          {"reason", "while the candidate ran: " + error.at("message").get<std::string>()},
          {"feedback", json::array()}};
}

class Gpu : public Coroutine {
 public:
  using Coroutine::Coroutine;

  Task<> Run(Context& ctx) override {
    const json request = ctx.start().at("request");
    if (request.at("asked") == "task") {
      co_return EvaluatorDone(TaskVerdict(co_await ctx.Worker(JudgeCall("try_task", request))));
    }
    const Reply recorded = co_await ctx.Try(ctx.Worker(RecordCall(request)));
    json record;
    if (recorded.ok() || !IsTheCandidates(recorded.error())) {
      record = recorded.value();  // throws what is not the candidate's
      if (!recorded.isolation().is_null()) record["isolation"] = recorded.isolation();
    } else {
      // A task that hangs or crashes takes every candidate with it: blame the task first.
      co_await ctx.Worker(JudgeCall("try_task", request));
      record = Unrecorded(recorded.error());
    }
    WorkerCall judge = JudgeCall("judge", request);
    judge.request["record"] = record;
    judge.request["asked"] = request.at("asked");
    co_return EvaluatorDone(co_await ctx.Worker(judge));
  }

 private:
  WorkerCall RecordCall(const json& request) const {
    WorkerCall call;
    call.module = "kernel_evolve_worker.recording.record";
    call.function = "record";
    call.deadline_s = params().at("record_deadline_s");
    call.limits = {{"memory_mb", params().at("memory_mb")}};
    call.request = {{"task", request.at("task")},
                    {"candidate", request.at("candidate")},
                    {"asked", request.at("asked")}};
    return call;
  }

  WorkerCall JudgeCall(const std::string& function, const json& request) const {
    const json& task = request.at("task");
    WorkerCall call;
    call.module = "evaluator_gpu.judge";
    call.function = function;
    call.session = JudgeSession(task.at("source").get<std::string>());
    call.deadline_s = params().at("judge_deadline_s");
    // No limit of memory: CUDA reserves addresses for all of the machine's.
    call.limits = {{"gpu", true}, {"memory_mb", 0}};
    call.request = {{"task", task},
                    {"seed", request.value("seed", config().seed())},
                    {"compile_baseline", params().at("compile_baseline")}};
    return call;
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
                         "description": "Also compare with torch.compile."}
  },
  "additionalProperties": false
})";

constexpr char kInterface[] = R"({"class": "tape", "blocking": false, "tries_tasks": true})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("evaluator_gpu", "1.0.0",
                     Evaluator<Gpu>("gpu", "Measures kernels on an NVIDIA GPU", kParams,
                                    kInterface))
