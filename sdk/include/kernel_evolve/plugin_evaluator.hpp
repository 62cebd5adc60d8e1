// Record, then judge: what evaluators have in common that never run a candidate where it is judged.
// A class derives from RecordThenJudge and says which module of the worker judges; plugin.hpp's
// Evaluator makes an implementation of it.
//
// 1. record: a process of its own, where the candidate's code runs. It yields a tape of what the
//    candidate did, or the reason why there is none.
//    A trial compile ("asked": "compile") leaves it in the verdict's `recording`, and the full
//    evaluation of the same source begins with it.
// 2. judge: a trusted process that never loads the candidate. It tries the task, works on the tape
//    and writes the verdict, with the code "no_recording" where it can't read the tape. There is
//    one per task source, which keeps what it knows of the task.
//
// Parameters that are read: record_deadline_s, judge_deadline_s, and memory_mb, the limit of the
// process of the candidate. As with any coroutine, an instance may resume on any thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "kernel_evolve/plugin_coroutine.hpp"

namespace kernel_evolve::sdk {

class RecordThenJudge : public Coroutine {
 public:
  using Coroutine::Coroutine;

  Task<> Run(Context& ctx) override {
    const json request = ctx.start().at("request");
    if (request.at("asked") == "task") {
      co_return EvaluatorDone(TaskVerdict(co_await ctx.Worker(Call("try_task", request))));
    }
    if (const json kept = Kept(request); !kept.is_null()) {
      json verdict = co_await Judged(ctx, request, kept);
      if (verdict.value("code", "") != "no_recording") co_return EvaluatorDone(std::move(verdict));
    }
    const Reply recorded = co_await ctx.Try(ctx.Worker(RecordCall(request)));
    json record;
    if (recorded.ok() || !IsTheCandidates(recorded.error())) {
      record = recorded.value();  // throws what is not the candidate's
      if (!recorded.isolation().is_null()) record["isolation"] = recorded.isolation();
    } else {
      // A task that hangs or crashes takes every candidate with it: blame the task first.
      co_await ctx.Worker(Call("try_task", request));
      record = Unrecorded(recorded.error());
    }
    json verdict = co_await Judged(ctx, request, record);
    // For the full verdict on the same source, which needs no second recording.
    if (request.at("asked") == "compile" && record.value("ok", json()) == true) {
      verdict["recording"] = record;
    }
    co_return EvaluatorDone(std::move(verdict));
  }

 protected:
  struct Judge {
    std::string module;          // has the functions `try_task` and `judge`
    std::string session;         // the first part of its sessions' names
    std::string verdict_class;   // "tape" or "modelled"
    std::string times;           // how times come about, in one word
    json limits;                 // of its processes
    json more = json::object();  // members of each request, beside "task" and "seed"
  };

  // How this evaluator judges; asked for each call.
  virtual Judge judge() const = 0;

 private:
  // The recording that a trial compile of this source left, or null. The tape may be gone by now.
  static json Kept(const json& request) {
    const json compiled = request.value("compiled", json::object());
    json kept = compiled.value("recording", json());
    if (kept.is_object()) kept["seconds"] = json::object();  // spent already
    return kept;
  }

  Effect Judged(Context& ctx, const json& request, const json& record) const {
    WorkerCall judge = Call("judge", request);
    judge.request["record"] = record;
    judge.request["asked"] = request.at("asked");
    return ctx.Worker(judge);
  }

  // One judge process per task source: it keeps the task's references between candidates.
  static std::string SessionOf(const std::string& source, const std::string& name) {
    uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const char c : source) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    char text[32];
    std::snprintf(text, sizeof text, ":%016llx", static_cast<unsigned long long>(hash));
    return name + text;
  }

  // The process that ran the candidate hung, died or flooded its output. Any other failure (a
  // mistake of the task, a missing module, Ctrl-C) has nothing to do with the candidate.
  static bool IsTheCandidates(const json& error) {
    const std::string error_class = error.at("class");
    return error_class == "timeout" || error_class == "internal" || error_class == "invalid_output";
  }

  // What recording would have said, had it lived.
  static json Unrecorded(const json& error) {
    return {{"ok", false},
            {"stage", "correctness"},
            {"code", error.at("class") == "timeout" ? "timeout" : "crashed"},
            {"reason", "while the candidate ran: " + error.at("message").get<std::string>()},
            {"feedback", json::array()}};
  }

  // A task that passed its trial, in the form of a verdict.
  json TaskVerdict(const json& trial) const {
    const Judge by = judge();
    char text[160];
    std::snprintf(text, sizeof text, "the task is sound; eager takes %.4g ms (%s), judged as %s",
                  trial.at("original_time").get<double>(), by.times.c_str(),
                  trial.at("precision").get<std::string>().c_str());
    return {{"format", 1},     {"class", by.verdict_class},
            {"asked", "task"}, {"stage", "done"},
            {"ok", true},      {"correct", nullptr},
            {"reason", text},  {"feedback", trial.at("notes")},
            {"win", false},    {"task", trial}};
  }

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

  WorkerCall Call(const std::string& function, const json& request) const {
    const Judge by = judge();
    const json& task = request.at("task");
    WorkerCall call;
    call.module = by.module;
    call.function = function;
    call.session = SessionOf(task.at("source").get<std::string>(), by.session);
    call.deadline_s = params().at("judge_deadline_s");
    call.limits = by.limits;
    call.request = {{"task", task}, {"seed", request.value("seed", config().seed())}};
    call.request.update(by.more);
    return call;
  }
};

}  // namespace kernel_evolve::sdk
