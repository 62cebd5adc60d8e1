#include "core/engine/engine.hpp"

#include <memory>
#include <utility>

#include "core/engine/journal.hpp"
#include "core/engine/prepare.hpp"
#include "core/engine/scheduler.hpp"
#include "core/evolve/verdict.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

RunOutcome NeverRan(const Error& error) {
  RunOutcome outcome;
  outcome.status = RunStatusName(RunStatus::kFailed);
  outcome.reason = error.message;
  outcome.state = Json::Obj();
  outcome.usage = Ledger().Used();
  outcome.archive = Json::Arr();
  outcome.error = error;
  return outcome;
}

RunOutcome OutcomeFrom(State state, double wall_s) {
  RunOutcome outcome;
  outcome.status = RunStatusName(state.status);
  outcome.reason = state.reason;
  outcome.usage = state.ledger.Used();
  outcome.usage["wall"] = wall_s;  // the ledger's stands still since the last effect
  outcome.best = state.archive.Best();
  outcome.archive = state.archive.ToJson();
  outcome.state = std::move(state.channels);
  outcome.error = std::move(state.error);
  return outcome;
}

Status MakeFolder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return {};
  return MissingEnvironment("cannot make the folder " + folder.string() + ": " + failed.message());
}

Json Summary(const RunOutcome& outcome, const std::string& state_hash) {
  return Json::Obj({{"status", outcome.status},
                    {"reason", outcome.reason},
                    {"usage", outcome.usage},
                    {"best", outcome.best["id"]},
                    {"state", outcome.state},
                    {"state_hash", state_hash}});
}

}  // namespace

RunOutcome Execute(const RunSpec& spec, InstanceFactory& factory, WorkerPort& worker, Clock& clock,
                   RunObserver& observer, const std::atomic<bool>& interrupted) {
  // A copy, to make the folder absolute: plugins and children may have another working folder.
  RunSpec run = spec;
  std::error_code failed;
  run.run_dir = fs::absolute(spec.run_dir, failed).lexically_normal();
  if (!run.run_dir.has_filename()) run.run_dir = run.run_dir.parent_path();
  const fs::path journal_file = run.run_dir / kJournalName;
  if (fs::exists(journal_file, failed)) {
    return NeverRan(BadInput("the run folder " + run.run_dir.string() + " already holds a run (" +
                             kJournalName + "); choose another folder"));
  }
  if (Status made = MakeFolder(run.run_dir / "scratch"); !made.ok()) return NeverRan(made.error());
  Result<internal::Prepared> prepared = internal::Prepare(run, factory, clock);
  if (!prepared) return NeverRan(prepared.error());
  auto journal = Journal::Create(journal_file, internal::DescribeRun(run, *prepared, clock));
  if (!journal) return NeverRan(journal.error());
  const double began = clock.Monotonic();
  internal::Scheduler scheduler(prepared->plan, prepared->bindings, factory, worker, clock,
                                observer, journal->get(), run.threads, interrupted);
  State state = scheduler.Run();
  const std::string hash = state.Hash();
  RunOutcome outcome = OutcomeFrom(std::move(state), clock.Monotonic() - began);
  const Status finished = (*journal)->Finish(Summary(outcome, hash));
  if (!finished.ok() && outcome.status != RunStatusName(RunStatus::kParked)) {
    outcome.status = RunStatusName(RunStatus::kParked);
    outcome.reason = finished.error().message;
    outcome.error = finished.error();
  }
  return outcome;
}

RunOutcome Execute(const RunSpec& spec, Registry& registry, Worker& worker, RunObserver& observer,
                   const std::atomic<bool>& interrupted) {
  RegistryFactory factory(registry);
  ProcessWorker port(worker);
  SystemClock clock;
  return Execute(spec, factory, port, clock, observer, interrupted);
}

Result<Json> EvaluateOnce(const EvaluatorBinding& evaluator, const Json& task,
                          const Json& candidate, const std::string& asked, uint64_t seed,
                          InstanceFactory& factory, WorkerPort& worker, Clock& clock,
                          RunObserver& observer, const fs::path& scratch,
                          const std::atomic<bool>& interrupted) {
  std::error_code failed;
  const fs::path folder = fs::absolute(scratch, failed).lexically_normal();
  if (Status made = MakeFolder(folder); !made.ok()) return made.error();
  const Json context =
      Json::Obj({{"scratch_dir", folder.string()}, {"seed", static_cast<int64_t>(seed)}});
  Result<internal::BoundService> service = internal::BindEvaluator(evaluator, context, factory);
  if (!service) return service.error();

  EventLoop loop(clock, 1);
  auto handles = std::make_shared<internal::RunHandles>();
  handles->clock = &clock;
  handles->mailbox = loop.mailbox();
  handles->on_progress = [&observer](const Json& event) { observer.OnEvent(event); };
  internal::EffectRunner effects(loop, factory, worker, handles, folder);
  internal::ServiceCall call;
  call.type = service->type;
  call.config = service->config;
  call.start = Json::Obj({{"type", "start"},
                          {"request", Json::Obj({{"task", task},
                                                 {"candidate", candidate},
                                                 {"asked", asked},
                                                 {"seed", static_cast<int64_t>(seed)}})}});
  call.caller.plugin_dir = service->type->library.parent_path();
  call.secrets = service->secrets;
  call.seed = seed;
  std::optional<Json> outcome;
  effects.Serve(std::move(call), [&outcome](Json answer, const internal::ReportedUsage&) {
    outcome = std::move(answer);
  });
  loop.Run([&] { return outcome.has_value() && effects.idle(); },
           [&] {
             if (interrupted.load(std::memory_order_relaxed)) effects.CancelAll();
           });
  handles->on_progress = nullptr;
  if (!outcome->contains("ok")) {
    Error error = ErrorOf(*outcome);
    if (error.error_class == ErrorClass::kCancelled) error.exit_code = kExitInterrupted;
    return error;
  }
  Json verdict = (*outcome)["ok"];
  if (Status checked = CheckVerdict(verdict); !checked.ok()) return checked.error();
  return verdict;
}

Result<Json> EvaluateOnce(const EvaluatorBinding& evaluator, const Json& task,
                          const Json& candidate, const std::string& asked, uint64_t seed,
                          Registry& registry, Worker& worker, RunObserver& observer,
                          const fs::path& scratch, const std::atomic<bool>& interrupted) {
  RegistryFactory factory(registry);
  ProcessWorker port(worker);
  SystemClock clock;
  return EvaluateOnce(evaluator, task, candidate, asked, seed, factory, port, clock, observer,
                      scratch, interrupted);
}

}  // namespace kernel_evolve
