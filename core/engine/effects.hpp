// Carries out effects: worker calls, clock readings and sleeping directly; model calls and
// evaluations by driving an instance of a provider or an evaluator, whose own effects are carried
// out the same way. Internal to engine/. Everything here runs on the loop's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/base/json.hpp"
#include "core/engine/event_loop.hpp"
#include "core/engine/host_services.hpp"
#include "core/engine/ports.hpp"
#include "core/engine/random.hpp"

namespace kernel_evolve::internal {

// {"ok": value} or {"error": {"class", "message"}}
using OnOutcome = std::function<void(Json outcome)>;

// Who asks for an effect.
struct Caller {
  std::string node;  // empty outside of a run
  int64_t visit = 0;
  std::filesystem::path plugin_dir;  // its python/ is where modules are looked for first

  Json Place() const;  // {"node", "visit"}
};

// An instance of a provider or an evaluator that serves one request.
struct ServiceCall {
  const TypeInfo* type = nullptr;
  Json config;                                      // for create
  Json start;                                       // the first event
  std::shared_ptr<const EndpointOptions> endpoint;  // of a codec; else nullptr
  Caller caller;
  std::set<std::string> secrets;
  // Where the instance's own random numbers come from.
  uint64_t seed = 0;
  std::string random_path;
};
using OnServed = std::function<void(Json outcome, ReportedUsage reported)>;

class EffectRunner {
 public:
  // All outlive the runner.
  EffectRunner(EventLoop& loop, const Outside& outside, std::shared_ptr<RunHandles> run,
               std::filesystem::path scratch);
  EffectRunner(const EffectRunner&) = delete;
  EffectRunner& operator=(const EffectRunner&) = delete;

  // worker_call, now or sleep. `done` is called once, never before this returns.
  void Perform(const Json& effect, const Caller& caller, OnOutcome done);

  // `done` is called once, with the response or the verdict; never before this returns. A model
  // call over HTTP says beside it what it took ("call", see client.hpp).
  void Serve(ServiceCall call, OnServed done);

  // Steps an instance: here, or on a pool thread when its type blocks. `make` yields the instance
  // and is called on the same thread as the step. `done` is called on the loop's thread.
  void Step(const TypeInfo& type, std::function<Result<Instance*>()> make, Json event,
            std::function<void(Result<Json>)> done);

  // Ends what is in flight as cancelled, and all that comes after.
  void CancelAll();
  // Whether nothing is in flight.
  bool idle() const { return running_.empty() && serving_ == 0 && stepping_ == 0; }

 private:
  class Service;
  struct Running {
    int64_t worker_call = 0;  // 0: none
    int64_t timer = 0;        // 0: none
    OnOutcome done;
  };

  void ServeOverHttp(ServiceCall call, OnServed done);
  void CallWorker(int64_t token, const Json& effect, const Caller& caller);
  void Complete(int64_t token, Json outcome);

  EventLoop& loop_;
  const Outside outside_;
  const std::shared_ptr<RunHandles> run_;
  const std::filesystem::path scratch_;
  std::map<int64_t, Running> running_;
  int64_t last_token_ = 0;
  std::set<int64_t> model_calls_;  // in flight at the model port
  int serving_ = 0;
  int stepping_ = 0;
  bool cancelled_ = false;
};

}  // namespace kernel_evolve::internal
