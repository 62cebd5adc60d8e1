// Runs a graph on a task: the engine's front door. See ENGINE.md for how it works inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/engine/clock.hpp"
#include "core/engine/ports.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve {

// What a model alias stands for. `params` are the provider's, as the profile writes them:
// `${env:NAME}` stays, and grants the instance the secret NAME. "price": {"input", "output",
// "unit"} is the host's unless the provider declares it.
struct ModelBinding {
  std::string provider;
  Json params = Json::Obj();
  std::filesystem::path folder;  // that relative files of a codec's options are looked up in
};

struct EvaluatorBinding {
  std::string evaluator;
  Json params = Json::Obj();
};

struct RunSpec {
  const graph::Graph* graph = nullptr;  // borrowed for the run
  Json inputs = Json::Obj();            // what the user gave; defaults are filled in
  // {"path", "name", "source"}; also bound to the graph's one input of type task.
  std::optional<Json> task;
  std::filesystem::path run_dir;               // made if missing; must not hold a journal yet
  uint64_t seed = 0;                           // below 2^53, so that it survives every JSON reader
  graph::Budget budget_override;               // what is set here replaces the graph's limit
  std::map<std::string, ModelBinding> models;  // alias -> binding
  EvaluatorBinding evaluator;                  // an empty name: none
  int threads = 4;                             // for plugins that block
};

// Watches a run. Called on the thread that called Execute.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // {"event": "run_started" | "node_started" | "node_finished" | "node_failed" | "effect_started" |
  //  "effect_finished" | "effect_reused" | "progress" | "budget" | "run_finished", "at": seconds
  //  since the run began, ...}: ENGINE.md lists the members of each.
  virtual void OnEvent(const Json&) {}
};

struct RunOutcome {
  std::string status;  // done | limit | budget | failed | interrupted | parked
  std::string reason;  // one sentence
  Json state;          // the channels that were written
  // {"wall", "steps", "llm_calls", "tokens", "cost", "evaluations", "models": {alias: ModelUse}}
  Json usage;
  Json best;     // the best verified candidate with `speedup` and `verdict`, or null
  Json archive;  // every candidate in order: [{"id", "source_hash", "candidate", "verdicts"}]
  std::optional<Error> error;  // of failed, budget and parked; its exit code is the process's
};

// Checks the whole of `spec` and tries every plugin's parameters before anything is spent; a
// mistake found there leaves no journal behind. Then runs until the graph ends, a limit is met or
// `interrupted` is set. Blocks; never throws. Setting `interrupted` (also from a signal handler)
// cancels what is in flight and returns once it has ended.
RunOutcome Execute(const RunSpec& spec, Registry& registry, WorkerPool& workers,
                   RunObserver& observer, const std::atomic<bool>& interrupted);

// The same with everything of the outside given: for tests.
RunOutcome Execute(const RunSpec& spec, const Outside& outside, RunObserver& observer,
                   const std::atomic<bool>& interrupted);

// Only the checks that Execute begins with; starts nothing and leaves nothing behind.
Status CheckRun(const RunSpec& spec, Registry& registry);

}  // namespace kernel_evolve
