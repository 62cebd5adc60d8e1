// Carries out the reducer's commands and feeds it the outcomes: the only place where a run meets
// clocks, plugins, Python and the journal. Everything happens on the thread that calls Run(), but
// for steps of plugins that block. Internal to engine/.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/effects.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/journal.hpp"
#include "core/engine/plan.hpp"
#include "core/engine/reducer.hpp"

namespace kernel_evolve::internal {

// A provider or evaluator as the run uses it.
struct BoundService {
  const TypeInfo* type = nullptr;
  Json config;  // for create
  std::set<std::string> secrets;
  std::shared_ptr<const EndpointOptions> endpoint;  // of a provider that is a codec
};

// What a plan's names stand for. Borrows from the factory and the journal.
struct Bindings {
  std::map<std::string, const TypeInfo*> nodes;  // node type -> type
  std::map<std::string, BoundService> models;    // alias -> provider
  BoundService evaluator;                        // type nullptr: none
  Json context;                                  // of create, but for plugin_dir
  std::filesystem::path scratch;
};

// {"params", "context"} for create.
Json ConfigFor(const TypeInfo& type, Json params, Json context);

class Scheduler {
 public:
  // All outlive the scheduler; `journal` may be nullptr: nothing is recorded then.
  Scheduler(const Plan& plan, const Bindings& bindings, const Outside& outside,
            RunObserver& observer, Journal* journal, int threads,
            const std::atomic<bool>& interrupted);

  // Once. Returns the final state, with nothing left in flight.
  State Run();

 private:
  using ActivationId = std::pair<std::string, int64_t>;  // node, visit
  struct LiveNode {
    const TypeInfo* type = nullptr;
    Json params;
    std::shared_ptr<InstanceHost> host;
    std::unique_ptr<Instance> instance;
    double started_s = 0;
  };

  void Push(Event event);
  void Carry(const Command& command);
  void CarryOut(const StepNode& command);
  void CarryOut(const Perform& command);
  void CarryOut(const Keep& command);
  void CarryOut(const Tell& command);
  void CarryOut(const Finish& command);
  void OnStepped(const ActivationId& id, Result<Json> outcome);
  void OnEffect(const Perform& command, double started_s, Json outcome, ReportedUsage reported);
  Charge ChargeOf(const Json& effect, const Json& outcome, const ReportedUsage& reported) const;
  ServiceCall ServiceFor(const Perform& command) const;
  void Signal(const std::string& kind, Event event);
  void Observe(Json event);
  bool Written(const Status& status);
  double Elapsed() { return clock_.Monotonic() - began_s_; }

  const Plan& plan_;
  const Bindings& bindings_;
  InstanceFactory& factory_;
  Clock& clock_;
  RunObserver& observer_;
  Journal* const journal_;
  const std::atomic<bool>& interrupted_;
  const std::shared_ptr<RunHandles> handles_;
  EventLoop loop_;
  EffectRunner effects_;
  double began_s_ = 0;
  State state_;
  std::deque<Event> events_;
  bool pumping_ = false;
  bool journal_failed_ = false;
  std::map<ActivationId, std::shared_ptr<LiveNode>> live_;
};

}  // namespace kernel_evolve::internal
