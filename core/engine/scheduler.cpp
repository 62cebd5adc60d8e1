#include "core/engine/scheduler.hpp"

#include <algorithm>

#include "core/llm/message.hpp"

namespace kernel_evolve::internal {
namespace {

bool IsPaid(const std::string& kind) { return kind == "llm_complete" || kind == "evaluate"; }

// What an observer is told of an effect; requests are too long for that.
Json Described(const char* event, const EffectKey& key, const Json& effect) {
  Json out = Json::Obj({{"event", event},
                        {"node", key.node},
                        {"visit", key.visit},
                        {"sequence", key.sequence},
                        {"kind", effect["kind"]}});
  for (const char* member : {"model", "asked", "module", "function"}) {
    if (effect.contains(member)) out[member] = effect[member];
  }
  const Json& candidate = effect["candidate"]["id"];
  if (candidate.is_string()) out["candidate"] = candidate;
  return out;
}

// What an observer is told of a result: the verdict without its details, or what the author did.
void AddDigest(const std::string& kind, const Json& value, Json* event) {
  if (kind == "evaluate") {
    Json verdict = Json::Obj();
    for (const char* member :
         {"asked", "stage", "ok", "correct", "weak", "win", "class", "code", "reason", "metrics"}) {
      if (value.contains(member)) verdict[member] = value[member];
    }
    (*event)["verdict"] = std::move(verdict);
  } else if (kind == "llm_complete" && value["tool_calls"].size() > 0) {
    const Json& call = value["tool_calls"].array().front();
    std::string text;
    for (const char* member : {"summary", "lesson", "analysis"}) {
      if (text.empty()) text = call["arguments"].Text(member);
    }
    (*event)["summary"] = text.substr(0, text.find('\n'));
  }
}

}  // namespace

Json ConfigFor(const TypeInfo& type, Json params, Json context) {
  context["plugin_dir"] = type.library.parent_path().string();
  return Json::Obj({{"params", std::move(params)}, {"context", std::move(context)}});
}

Scheduler::Scheduler(const Plan& plan, const Bindings& bindings, const Outside& outside,
                     RunObserver& observer, Journal* journal, int threads,
                     const std::atomic<bool>& interrupted)
    : plan_(plan),
      bindings_(bindings),
      factory_(outside.factory),
      clock_(outside.clock),
      observer_(observer),
      journal_(journal),
      interrupted_(interrupted),
      handles_(std::make_shared<RunHandles>()),
      loop_(outside.clock, threads),
      effects_(loop_, outside, handles_, bindings.scratch),
      state_(InitialState(plan)) {
  handles_->clock = &clock_;
  handles_->mailbox = loop_.mailbox();
  handles_->on_progress = [this](const Json& event) { Observe(event); };
}

State Scheduler::Run() {
  began_s_ = clock_.Monotonic();
  if (plan_.limits.wall_s) {
    handles_->deadline = began_s_ + *plan_.limits.wall_s;
    loop_.After(*plan_.limits.wall_s, [this] { Signal("deadline", DeadlinePassed{Elapsed()}); });
  }
  Push(RunStarted{});
  loop_.Run([this] { return state_.status != RunStatus::kRunning && effects_.idle(); },
            [this] {
              if (interrupted_.load(std::memory_order_relaxed))
                Signal("interrupted", Interrupted{});
            });
  live_.clear();
  handles_->on_progress = nullptr;
  return std::move(state_);
}

// Outcomes of steps that do not block come while their command is carried out: they wait in turn,
// so that a long run needs no deep stack.
void Scheduler::Push(Event event) {
  events_.push_back(std::move(event));
  if (pumping_) return;
  pumping_ = true;
  std::vector<Command> commands;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    commands.clear();
    state_ = Reduce(plan_, std::move(state_), next, &commands);
    for (const Command& command : commands) Carry(command);
  }
  pumping_ = false;
}

void Scheduler::Carry(const Command& command) {
  std::visit([this](const auto& each) { CarryOut(each); }, command);
}

void Scheduler::CarryOut(const StepNode& command) {
  // What the trace has is committed before control enters a plugin that may crash.
  if (command.create && journal_ != nullptr && !Written(journal_->Commit())) return;
  const ActivationId id{command.node, command.visit};
  if (command.create) {
    auto made = std::make_shared<LiveNode>();
    made->type = bindings_.nodes.at(plan_.graph->Find(command.node)->uses);
    made->params = command.params;
    made->host = std::make_shared<InstanceHost>(
        handles_, Caller{command.node, command.visit, {}}.Place(), std::set<std::string>());
    made->started_s = Elapsed();
    live_[id] = std::move(made);
  }
  const std::shared_ptr<LiveNode> live = live_.at(id);
  const auto make = [this, live]() -> Result<Instance*> {
    if (!live->instance) {
      auto created = factory_.Create(
          *live->type, ConfigFor(*live->type, live->params, bindings_.context), live->host);
      if (!created) return created.error();
      live->instance = std::move(*created);
    }
    return live->instance.get();
  };
  effects_.Step(*live->type, make, command.event,
                [this, id](Result<Json> outcome) { OnStepped(id, std::move(outcome)); });
}

void Scheduler::OnStepped(const ActivationId& id, Result<Json> outcome) {
  const std::shared_ptr<LiveNode> live = live_.at(id);
  const ReportedUsage reported = live->host->TakeUsage();
  Charge used;
  used.tokens = reported.input_tokens + reported.output_tokens;
  used.cost = reported.cost;
  if (!outcome || !outcome->contains("effects")) live->instance.reset();
  Push(StepDone{id.first, id.second, std::move(outcome), used});
}

void Scheduler::CarryOut(const Perform& command) {
  const std::string kind = command.effect.Text("kind");
  Observe(Described("effect_started", command.key, command.effect));
  const double started = Elapsed();
  if (!IsPaid(kind)) {
    const TypeInfo* type = bindings_.nodes.at(plan_.graph->Find(command.key.node)->uses);
    return effects_.Perform(command.effect,
                            {command.key.node, command.key.visit, type->library.parent_path()},
                            [this, command, started](Json outcome) {
                              OnEffect(command, started, std::move(outcome), {});
                            });
  }
  // A paid call may kill this program, too (a provider is a plugin): say first what it was.
  if (journal_ != nullptr && !Written(journal_->Commit())) return;
  if (kind == "evaluate" && bindings_.evaluator.type == nullptr) {
    return OnEffect(command, started,
                    OutcomeOf(Failed(ErrorClass::kUnavailable,
                                     "this run has no evaluator; name one in the profile")),
                    {});
  }
  effects_.Serve(ServiceFor(command),
                 [this, command, started](Json outcome, ReportedUsage reported) {
                   OnEffect(command, started, std::move(outcome), reported);
                 });
}

ServiceCall Scheduler::ServiceFor(const Perform& command) const {
  const bool model = command.effect.Text("kind") == "llm_complete";
  const BoundService& service =
      model ? bindings_.models.at(command.effect.Text("model")) : bindings_.evaluator;
  ServiceCall call;
  call.type = service.type;
  call.config = service.config;
  call.endpoint = service.endpoint;
  call.start = Json::Obj(
      {{"type", "start"}, {"request", model ? command.effect["request"] : command.request}});
  if (model) call.start["call"] = command.call;
  call.caller = {command.key.node, command.key.visit, service.type->library.parent_path()};
  call.secrets = service.secrets;
  call.seed = plan_.seed;
  call.random_path = command.key.Text();
  return call;
}

void Scheduler::OnEffect(const Perform& command, double started_s, Json outcome,
                         ReportedUsage reported) {
  const std::string kind = command.effect.Text("kind");
  Recorded result;
  result.kind = kind;
  result.key = command.key;
  result.effect = command.effect;
  result.elapsed_s = Elapsed();
  result.used = ChargeOf(command.effect, outcome, reported);
  if (kind == "llm_complete" && !outcome.contains("call")) {
    outcome["call"] = Json::Obj({{"attempts", 1}, {"seconds", result.elapsed_s - started_s}});
  }
  if (kind == "llm_complete") outcome["call"]["number"] = command.call;
  Json event = Described("effect_finished", command.key, command.effect);
  event["seconds"] = result.elapsed_s - started_s;
  event["ok"] = outcome.contains("ok");
  if (outcome.contains("ok")) {
    AddDigest(kind, outcome["ok"], &event);
  } else {
    event["error"] = outcome["error"];
  }
  Observe(std::move(event));
  // After the end, only what was bought is worth a line: a later resume need not buy it again.
  const bool over = state_.status != RunStatus::kRunning;
  if (over && !(IsPaid(kind) && outcome.contains("ok"))) return;
  result.outcome = std::move(outcome);
  if (journal_ != nullptr && !Written(journal_->Record(result, IsPaid(kind)))) return;
  Push(EffectDone{result.key, std::move(result.outcome), result.used, result.elapsed_s});
}

Charge Scheduler::ChargeOf(const Json& effect, const Json& outcome,
                           const ReportedUsage& reported) const {
  Charge used;
  const bool model_call = effect.Text("kind") == "llm_complete";
  const TokenUsage said = model_call ? UsageOf(outcome["ok"]) : TokenUsage();
  // A provider may say it in its response, through the host, or both.
  const int64_t input = std::max(said.input, reported.input_tokens);
  const int64_t output = std::max(said.output, reported.output_tokens);
  used.tokens = input + output;
  used.cost = reported.cost;
  if (!model_call || reported.cost > 0) return used;
  const auto model = plan_.models.find(effect.Text("model"));
  if (model != plan_.models.end() && model->second.price) {
    used.cost = model->second.price->Of(input, output);
  }
  return used;
}

void Scheduler::CarryOut(const Keep& command) {
  if (journal_ == nullptr) return;
  journal_->Keep(*state_.archive.Find(command.source_hash), command.asked);
}

void Scheduler::CarryOut(const Tell& command) {
  Json event = command.event;
  const std::string name = event.Text("event");
  if (name == "node_finished" || name == "node_failed") {
    const auto live = live_.find({event.Text("node"), event.Integer("visit")});
    if (live != live_.end()) {
      event["seconds"] = Elapsed() - live->second->started_s;
      live_.erase(live);
    }
  }
  Observe(std::move(event));
}

void Scheduler::CarryOut(const Finish&) { effects_.CancelAll(); }

void Scheduler::Signal(const std::string& kind, Event event) {
  if (state_.status != RunStatus::kRunning) return;
  if (journal_ != nullptr) {
    Recorded signal;
    signal.kind = kind;
    signal.elapsed_s = Elapsed();
    signal.after_events = state_.events;
    if (!Written(journal_->Record(signal, false))) return;
  }
  Push(std::move(event));
}

void Scheduler::Observe(Json event) {
  const double at = Elapsed();
  event["at"] = at;
  if (journal_ != nullptr && event.Text("event") != "progress") journal_->Trace(at, event);
  observer_.OnEvent(event);
}

// True when the journal has it. Else the run is over: nothing may take effect that is not written.
bool Scheduler::Written(const Status& status) {
  if (status.ok()) return true;
  if (!journal_failed_) {
    journal_failed_ = true;
    Push(JournalFailed{status.error()});
  }
  return false;
}

}  // namespace kernel_evolve::internal
