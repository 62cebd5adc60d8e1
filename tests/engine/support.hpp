// Stand-ins for everything outside of the engine: scripted plugins, a scripted worker and a clock
// that a test moves. A script is JSON:
//
// {"nodes": {"t/a": {"in": [...], "out": [...], "result": {...}, "labels": [...], "params": schema,
//                    "blocking": bool, "visits": [[outcome, ...], ...], "refuse": "sentence"}},
//  "providers": {"fake": {"capabilities": [...], "calls": [[outcome, ...], ...]},
//                "http": {"capabilities": [...], "replies": [{"ok" | "error", "call"} | "hang"]}},
//  "evaluators": {"fake": {"codes": {"the code": [outcome, ...]}}},
//  "worker": {"module.function": {"ok": value} | {"error": {...}} | "hang"}}
//
// `visits` has the outcomes of the steps of each visit; the last one serves all later visits, and
// so do calls of a provider. An outcome may have "do": {"advance": seconds, "interrupt": true,
// "progress": {...}, "usage": {...}}, done before it is returned.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/engine/journal.hpp"
#include "core/engine/ports.hpp"
#include "core/engine/prepare.hpp"
#include "core/engine/reducer.hpp"
#include "core/graph/loader.hpp"

namespace kernel_evolve::test {

// What happened, a line each. Thread-safe.
class Trace {
 public:
  void Add(std::string line);
  std::vector<std::string> lines() const;
  std::string text() const;
  // Whether some line holds `part`.
  bool Has(const std::string& part) const;
  int Count(const std::string& part) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Stands still until a test, or an idle engine that waits for a timer, moves it.
class FakeClock : public Clock {
 public:
  double Monotonic() override { return now_.load(); }
  double Unix() override { return 1'000'000 + now_.load(); }
  void Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, double until,
            bool quiet, const std::function<bool()>& ready) override;
  void Advance(double seconds) { now_.store(now_.load() + seconds); }

 private:
  std::atomic<double> now_{100};
};

// Everything of the outside, from one script.
class World : public InstanceFactory, public WorkerPort, public ModelPort, public RunObserver {
 public:
  explicit World(const std::string& script);
  ~World() override;

  const TypeInfo* Find(TypeKind kind, const std::string& name) override;
  Result<std::unique_ptr<Instance>> Create(const TypeInfo& type, const Json& config,
                                           std::shared_ptr<HostServices> services) override;
  Result<std::unique_ptr<Codec>> CreateCodec(const TypeInfo& type, const Json& config,
                                             std::shared_ptr<HostServices> services) override;
  int64_t Call(WorkerCall call, Worker::Done done, Worker::Progress progress) override;
  int64_t Call(ModelCall call, ModelClient::Done done, ModelClient::Progress progress) override;
  void Cancel(int64_t id) override;  // of either port: their numbers are distinct
  void OnEvent(const Json& event) override;

  graph::NodeTypeCatalog Catalog() const;
  Outside outside() { return {*this, *this, *this, clock}; }

  Trace trace;
  FakeClock clock;
  std::atomic<bool> interrupted{false};
  bool answer_on_threads = false;                  // the worker answers from threads of its own
  std::map<std::string, WorkerCall> worker_calls;  // the last call of each function
  std::vector<ModelCall> model_calls;              // over HTTP, in the order of asking
  int created = 0;
  int alive = 0;

 private:
  friend class Scripted;
  void Declare(TypeKind kind, const std::string& name, const Json& script);

  Json script_;
  std::map<std::pair<TypeKind, std::string>, TypeInfo> types_;
  std::mutex mutex_;
  std::map<int64_t, Worker::Done> hanging_;
  std::vector<std::thread> threads_;
  int64_t last_call_ = 0;
};

// A folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The graph, or a failed test and an empty graph.
graph::Graph Load(const std::string& yaml, const World& world);

// A spec for `graph` with every model bound to the provider `fake` and the evaluator `fake`, when
// the script has them.
RunSpec SpecFor(const graph::Graph& graph, World& world, const std::filesystem::path& run_dir);

RunOutcome RunIn(const RunSpec& spec, World& world);

// Parsed, or a failed test and null.
Json J(const std::string& text);

}  // namespace kernel_evolve::test
