#include "core/engine/engine.hpp"

#include <memory>
#include <utility>

#include "core/engine/journal.hpp"
#include "core/engine/prepare.hpp"
#include "core/engine/scheduler.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

RunOutcome NeverRan(const Error& error) {
  RunOutcome outcome;
  outcome.status = RunStatusName(RunStatus::kFailed);
  outcome.reason = error.message;
  outcome.state = Json::Obj();
  outcome.usage = Ledger().Used();
  outcome.usage["models"] = Json::Obj();
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
  outcome.usage["models"] = Json::Obj();
  for (const auto& [alias, use] : state.model_uses) outcome.usage["models"][alias] = use.ToJson();
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

RunOutcome Execute(const RunSpec& spec, const Outside& outside, RunObserver& observer,
                   const std::atomic<bool>& interrupted) {
  Clock& clock = outside.clock;
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
  Result<internal::Prepared> prepared = internal::Prepare(run, outside.factory, clock);
  if (!prepared) return NeverRan(prepared.error());
  auto journal = Journal::Create(journal_file, internal::DescribeRun(run, *prepared, clock));
  if (!journal) return NeverRan(journal.error());
  const double began = clock.Monotonic();
  internal::Scheduler scheduler(prepared->plan, prepared->bindings, outside, observer,
                                journal->get(), run.threads, interrupted);
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

RunOutcome Execute(const RunSpec& spec, Registry& registry, WorkerPool& workers,
                   RunObserver& observer, const std::atomic<bool>& interrupted) {
  RegistryFactory factory(registry);
  ProcessWorkers port(workers);
  HttpModels models;
  SystemClock clock;
  return Execute(spec, {factory, port, models, clock}, observer, interrupted);
}

Status CheckRun(const RunSpec& spec, Registry& registry) {
  RegistryFactory factory(registry);
  SystemClock clock;
  const Result<internal::Prepared> prepared = internal::Prepare(spec, factory, clock);
  return prepared ? Status() : Status(prepared.error());
}

}  // namespace kernel_evolve
