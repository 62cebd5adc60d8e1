#include "core/engine/effects.hpp"

#include <atomic>
#include <utility>
#include <vector>

#include "core/engine/reducer.hpp"

namespace kernel_evolve::internal {
namespace {

// A worker call whose author named no deadline.
constexpr double kDefaultDeadline = 120;

Json Cancelled() {
  return OutcomeOf(Failed(ErrorClass::kCancelled, "cancelled because the run ends"));
}

}  // namespace

Json Caller::Place() const {
  return node.empty() ? Json::Obj() : Json::Obj({{"node", node}, {"visit", visit}});
}

// Drives one instance from its start to its end. Keeps itself alive through the closures that wait
// for its effects.
class EffectRunner::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(EffectRunner& runner, ServiceCall call, OnServed done)
      : runner_(runner), call_(std::move(call)), done_(std::move(done)) {
    host_ = std::make_shared<InstanceHost>(runner_.run_, call_.caller.Place(), call_.secrets);
  }

  void Step(Json event) {
    const auto self = shared_from_this();
    runner_.Step(
        *call_.type, [self] { return self->Make(); }, std::move(event),
        [self](Result<Json> outcome) { self->OnStep(std::move(outcome)); });
  }

 private:
  Result<Instance*> Make() {
    if (instance_) return instance_.get();
    auto made = runner_.outside_.factory.Create(*call_.type, call_.config, host_);
    if (!made) return made.error();
    instance_ = std::move(*made);
    return instance_.get();
  }

  void OnStep(Result<Json> outcome) {
    if (!outcome) return End(OutcomeOf(outcome.error()));
    if (outcome->contains("error")) return End(Json::Obj({{"error", (*outcome)["error"]}}));
    if (outcome->contains("done")) {
      const char* key = call_.type->kind == TypeKind::kProvider ? "response" : "verdict";
      return End(OutcomeOf((*outcome)["done"][key]));
    }
    if (runner_.cancelled_) return End(Cancelled());
    Begin((*outcome)["effects"]);
  }

  void Begin(const Json& effects) {
    results_ = Json::Obj();
    waiting_ = effects.size();
    const auto self = shared_from_this();
    for (const Json& effect : effects.array()) {
      const std::string id = effect.Text("id");
      ++sequence_;
      if (effect.Text("kind") == "random") {
        const Json numbers = Random(effect.Integer("count", 1));
        runner_.loop_.Post([self, id, numbers] { self->OnEffect(id, OutcomeOf(numbers)); });
        continue;
      }
      runner_.Perform(effect, call_.caller,
                      [self, id](Json outcome) { self->OnEffect(id, std::move(outcome)); });
    }
  }

  Json Random(int64_t count) const {
    const RandomStream stream(call_.seed, call_.random_path, call_.caller.visit, 1, sequence_);
    Json numbers = Json::Arr();
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(stream.Uniform(static_cast<uint64_t>(i)));
    }
    return numbers;
  }

  void OnEffect(const std::string& id, Json outcome) {
    results_[id] = std::move(outcome);
    if (--waiting_ > 0) return;
    Step(Json::Obj({{"type", "results"}, {"results", std::move(results_)}}));
  }

  void End(Json outcome) {
    instance_.reset();
    --runner_.serving_;
    std::exchange(done_, nullptr)(std::move(outcome), host_->TakeUsage());
  }

  EffectRunner& runner_;
  const ServiceCall call_;
  OnServed done_;
  std::shared_ptr<InstanceHost> host_;
  std::unique_ptr<Instance> instance_;
  Json results_;
  size_t waiting_ = 0;
  int64_t sequence_ = 0;
};

namespace {

// A call without a session may run what a model wrote: it must not reach what another call wrote.
std::filesystem::path ScratchOfItsOwn(const std::filesystem::path& scratch) {
  static std::atomic<int64_t> calls{0};  // of the process: runs may share a folder
  return scratch / "calls" / std::to_string(++calls);
}

}  // namespace

EffectRunner::EffectRunner(EventLoop& loop, const Outside& outside, std::shared_ptr<RunHandles> run,
                           std::filesystem::path scratch)
    : loop_(loop), outside_(outside), run_(std::move(run)), scratch_(std::move(scratch)) {}

void EffectRunner::Perform(const Json& effect, const Caller& caller, OnOutcome done) {
  const int64_t token = ++last_token_;
  running_[token].done = std::move(done);
  const auto later = [this, token](Json outcome) {
    loop_.Post([this, token, outcome = std::move(outcome)]() mutable {
      Complete(token, std::move(outcome));
    });
  };
  if (cancelled_) return later(Cancelled());
  const std::string kind = effect.Text("kind");
  if (kind == "worker_call") return CallWorker(token, effect, caller);
  if (kind == "now") return later(OutcomeOf(Json(loop_.clock().Unix())));
  if (kind == "sleep") {
    running_[token].timer = loop_.After(effect.Number("seconds"),
                                        [this, token] { Complete(token, OutcomeOf(Json())); });
    return;
  }
  later(OutcomeOf(
      Failed(ErrorClass::kInvalidOutput, "nobody here carries out the effect '" + kind + "'")));
}

void EffectRunner::CallWorker(int64_t token, const Json& effect, const Caller& caller) {
  WorkerCall call;
  call.module = effect.Text("module");
  call.function = effect.Text("function");
  call.session = effect.Text("session");
  call.path = {caller.plugin_dir / "python"};
  call.readable = {caller.plugin_dir};  // programs of its own lie beside it
  call.request = effect["request"];
  call.deadline_s = effect.Number("deadline_s", kDefaultDeadline);
  call.scratch = call.session.empty() ? ScratchOfItsOwn(scratch_) : scratch_;
  call.limits = effect["limits"].is_object() ? effect["limits"] : Json::Obj();
  // Both come on the worker's thread, maybe before Call returns, hence by mail.
  const auto mailbox = loop_.mailbox();
  const int64_t id = outside_.worker.Call(
      std::move(call),
      [this, mailbox, token](Result<WorkerReply> reply) {
        Json outcome = OutcomeOf(reply ? Result<Json>(std::move(reply->value)) : reply.error());
        if (reply && !reply->isolation.is_null()) {
          outcome["isolation"] = std::move(reply->isolation);
        }
        mailbox->Post([this, token, outcome = std::move(outcome)]() mutable {
          Complete(token, std::move(outcome));
        });
      },
      [run = run_, mailbox, place = caller.Place()](const Json& data) {
        Json event = place;
        event["event"] = "progress";
        event["data"] = data;
        mailbox->Post([run, event = std::move(event)] {
          if (run->on_progress) run->on_progress(event);
        });
      });
  running_[token].worker_call = id;
}

void EffectRunner::Complete(int64_t token, Json outcome) {
  const auto found = running_.find(token);
  if (found == running_.end()) return;
  const OnOutcome done = std::move(found->second.done);
  running_.erase(found);
  done(std::move(outcome));
}

void EffectRunner::Serve(ServiceCall call, OnServed done) {
  ++serving_;
  if (call.type->interface.Text("form") == "codec") {
    return ServeOverHttp(std::move(call), std::move(done));
  }
  Json start = call.start;
  const auto service = std::make_shared<Service>(*this, std::move(call), std::move(done));
  loop_.Post([service, start = std::move(start)] { service->Step(start); });
}

void EffectRunner::ServeOverHttp(ServiceCall call, OnServed done) {
  const auto host = std::make_shared<InstanceHost>(run_, call.caller.Place(), call.secrets);
  const auto finish = [this, done = std::move(done), host](Json outcome) {
    --serving_;
    done(std::move(outcome), host->TakeUsage());
  };
  auto codec = outside_.factory.CreateCodec(*call.type, call.config, host);
  if (cancelled_ || !codec) {
    Json outcome = cancelled_ ? Cancelled() : OutcomeOf(codec.error());
    return loop_.Post([finish, outcome = std::move(outcome)] { finish(outcome); });
  }
  std::map<std::string, std::string> secrets;
  for (const std::string& name : call.secrets) {
    if (const auto value = host->Secret(name)) secrets[name] = *value;
  }
  ModelCall asked;
  asked.codec = std::move(*codec);
  asked.request = call.start["request"];
  if (call.endpoint) asked.options = *call.endpoint;
  asked.secrets = Secrets(std::move(secrets));
  // Both come on the transport's thread, hence by mail; the number is known before the mail is
  // read.
  const auto number = std::make_shared<int64_t>(0);
  const auto mailbox = loop_.mailbox();
  *number = outside_.models.Call(
      std::move(asked),
      [this, mailbox, number, finish](ModelReply reply) {
        Json outcome = OutcomeOf(reply.response);
        outcome["call"] = std::move(reply.call);
        mailbox->Post([this, number, finish, outcome = std::move(outcome)] {
          model_calls_.erase(*number);
          finish(outcome);
        });
      },
      [host](const Json& data) { host->Progress(data); });
  model_calls_.insert(*number);
}

void EffectRunner::Step(const TypeInfo& type, std::function<Result<Instance*>()> make, Json event,
                        std::function<void(Result<Json>)> done) {
  std::function<Result<Json>()> work = [make = std::move(make),
                                        event = std::move(event)]() -> Result<Json> {
    Result<Instance*> instance = make();
    if (!instance) return instance.error();
    return (*instance)->Step(event);
  };
  if (!type.interface.Flag("blocking")) return done(work());
  ++stepping_;
  loop_.Blocking(
      [this, mailbox = loop_.mailbox(), work = std::move(work), done = std::move(done)]() mutable {
        Result<Json> outcome = work();
        work = nullptr;
        mailbox->Post([this, done = std::move(done), outcome = std::move(outcome)]() mutable {
          --stepping_;
          done(std::move(outcome));
        });
      });
}

void EffectRunner::CancelAll() {
  if (cancelled_) return;
  cancelled_ = true;
  run_->cancelled.store(true, std::memory_order_relaxed);
  for (const int64_t call : model_calls_) outside_.models.Cancel(call);
  std::vector<int64_t> sleepers;
  for (const auto& [token, running] : running_) {
    if (running.worker_call != 0) outside_.worker.Cancel(running.worker_call);
    if (running.timer == 0) continue;
    loop_.CancelTimer(running.timer);
    sleepers.push_back(token);
  }
  for (const int64_t token : sleepers) {
    loop_.Post([this, token] { Complete(token, Cancelled()); });
  }
}

}  // namespace kernel_evolve::internal
