// The evaluator `simulator`: judges a candidate without a GPU, in two calls of the worker.
//
// 1. record: a process of its own, where the candidate's code runs. It yields a tape of what the
//    candidate did, or the reason why there is none.
// 2. judge: a trusted process that never loads the candidate. It tries the task, executes the
//    tape on other data, compares, models the time and writes the verdict.
// So a candidate never sees the data that it is judged on.
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
  std::snprintf(text, sizeof text, "judge:%016llx", static_cast<unsigned long long>(hash));
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
      text, sizeof text, "the task is sound; eager takes %.4g ms (modelled), judged as %s",
      trial.at("original_time").get<double>(), trial.at("precision").get<std::string>().c_str());
  return {{"format", 1},  {"class", "modelled"}, {"asked", "task"}, {"stage", "done"},
          {"ok", true},   {"correct", nullptr},  {"reason", text},  {"feedback", trial.at("notes")},
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

class Simulator : public Coroutine {
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
    call.module = "evaluator_simulator.judge";
    call.function = function;
    call.session = JudgeSession(task.at("source").get<std::string>());
    call.deadline_s = params().at("judge_deadline_s");
    call.limits = {{"memory_mb", params().at("memory_mb")}};
    call.request = {{"task", task}, {"seed", request.value("seed", config().seed())}};
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
