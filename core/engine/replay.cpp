#include "core/engine/replay.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/engine/host_services.hpp"
#include "core/engine/prepare.hpp"

namespace kernel_evolve {
namespace {

// One replay. Steps nodes at once and on this thread, whether they block or not.
class Replayer {
 public:
  Replayer(const internal::Prepared& prepared, InstanceFactory& factory, Clock& clock)
      : plan_(prepared.plan), bindings_(prepared.bindings), factory_(factory) {
    handles_->clock = &clock;
    handles_->mailbox = std::make_shared<Mailbox>();
    state_ = InitialState(plan_);
  }

  Result<State> Run(const std::vector<Recorded>& recorded) {
    Feed(RunStarted{});
    for (const Recorded& each : recorded) {
      Settle(each.is_signal() ? each.after_events : kNoStop);
      if (state_.status != RunStatus::kRunning) break;
      if (each.kind == "deadline") {
        Feed(DeadlinePassed{each.elapsed_s});
      } else if (each.is_signal()) {
        Feed(Interrupted{});
      } else if (Status fits = Answer(each); !fits.ok()) {
        return fits.error();
      }
    }
    Settle(kNoStop);
    return std::move(state_);
  }

 private:
  static constexpr int64_t kNoStop = -1;
  struct Live {
    std::shared_ptr<internal::InstanceHost> host;
    std::unique_ptr<Instance> instance;
  };

  void Feed(const Event& event) {
    std::vector<Command> commands;
    state_ = Reduce(plan_, std::move(state_), event, &commands);
    for (Command& command : commands) {
      if (auto* step = std::get_if<StepNode>(&command)) steps_.push_back(std::move(*step));
    }
  }

  // Steps what can be stepped. A signal came after `stop` events: not one step more before it.
  void Settle(int64_t stop) {
    while (!steps_.empty() && state_.events != stop && state_.status == RunStatus::kRunning) {
      const StepNode step = std::move(steps_.front());
      steps_.pop_front();
      Step(step);
    }
  }

  void Step(const StepNode& step) {
    Live& live = live_[{step.node, step.visit}];
    Result<Json> outcome = StepInstance(step, &live);
    const internal::ReportedUsage reported = live.host->TakeUsage();
    Charge used;
    used.tokens = reported.input_tokens + reported.output_tokens;
    used.cost = reported.cost;
    if (!outcome || !outcome->contains("effects")) live_.erase({step.node, step.visit});
    Feed(StepDone{step.node, step.visit, std::move(outcome), used});
  }

  Result<Json> StepInstance(const StepNode& step, Live* live) {
    if (step.create) {
      live->host = std::make_shared<internal::InstanceHost>(
          handles_, Json::Obj({{"node", step.node}, {"visit", step.visit}}),
          std::set<std::string>());
      const TypeInfo& type = *bindings_.nodes.at(plan_.graph->Find(step.node)->uses);
      auto made = factory_.Create(type, internal::ConfigFor(type, step.params, bindings_.context),
                                  live->host);
      if (!made) return made.error();
      live->instance = std::move(*made);
    }
    return live->instance->Step(step.event);
  }

  Status Answer(const Recorded& recorded) {
    for (const Activation& activation : state_.active) {
      for (const Pending& pending : activation.pending) {
        if (!(pending.key == recorded.key)) continue;
        Feed(EffectDone{recorded.key, recorded.outcome, recorded.used, recorded.elapsed_s});
        return {};
      }
    }
    return BadInput("the journal has an answer for " + recorded.key.Text() + " (" + recorded.kind +
                    ") that the run does not ask for any more; the graph or a plugin has changed, "
                    "or the node is not deterministic");
  }

  const Plan& plan_;
  const internal::Bindings& bindings_;
  InstanceFactory& factory_;
  const std::shared_ptr<internal::RunHandles> handles_ = std::make_shared<internal::RunHandles>();
  State state_;
  std::deque<StepNode> steps_;
  std::map<std::pair<std::string, int64_t>, Live> live_;
};

}  // namespace

Result<State> ReplayJournal(const RunSpec& spec, InstanceFactory& factory, Clock& clock,
                            const std::vector<Recorded>& recorded) {
  Result<internal::Prepared> prepared = internal::Prepare(spec, factory, clock);
  if (!prepared) return prepared.error();
  return Replayer(*prepared, factory, clock).Run(recorded);
}

}  // namespace kernel_evolve
