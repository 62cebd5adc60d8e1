#include "core/engine/once.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "core/engine/prepare.hpp"
#include "core/engine/scheduler.hpp"
#include "core/evolve/verdict.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;
using internal::BoundService;

Json ContextOf(const fs::path& scratch, uint64_t seed) {
  return Json::Obj({{"scratch_dir", scratch.string()}, {"seed", static_cast<int64_t>(seed)}});
}

Result<fs::path> MakeScratch(const fs::path& wanted) {
  std::error_code failed;
  const fs::path folder = fs::absolute(wanted, failed).lexically_normal();
  fs::create_directories(folder, failed);
  if (!failed) return folder;
  return MissingEnvironment("cannot make the folder " + folder.string() + ": " + failed.message());
}

// Serves one request to its end on a loop of its own.
Json ServeOnce(const BoundService& service, Json start, uint64_t seed, const Outside& outside,
               RunObserver& observer, const fs::path& scratch,
               const std::atomic<bool>& interrupted) {
  EventLoop loop(outside.clock, 1);
  auto handles = std::make_shared<internal::RunHandles>();
  handles->clock = &outside.clock;
  handles->mailbox = loop.mailbox();
  handles->on_progress = [&observer](const Json& event) { observer.OnEvent(event); };
  internal::EffectRunner effects(loop, outside, handles, scratch);
  internal::ServiceCall call;
  call.type = service.type;
  call.config = service.config;
  call.endpoint = service.endpoint;
  call.start = std::move(start);
  call.caller.plugin_dir = service.type->library.parent_path();
  call.secrets = service.secrets;
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
  return *std::move(outcome);
}

Error ErrorIn(const Json& outcome) {
  Error error = ErrorOf(outcome);
  if (error.error_class == ErrorClass::kCancelled) error.exit_code = kExitInterrupted;
  return error;
}

}  // namespace

Result<Json> EvaluateOnce(const EvaluatorBinding& evaluator, const Json& task,
                          const Json& candidate, const std::string& asked, uint64_t seed,
                          const Outside& outside, RunObserver& observer, const fs::path& scratch,
                          const std::atomic<bool>& interrupted) {
  const Result<fs::path> folder = MakeScratch(scratch);
  if (!folder) return folder.error();
  const Result<BoundService> service =
      internal::BindEvaluator(evaluator, ContextOf(*folder, seed), outside.factory);
  if (!service) return service.error();
  Json start = Json::Obj({{"type", "start"},
                          {"request", Json::Obj({{"task", task},
                                                 {"candidate", candidate},
                                                 {"asked", asked},
                                                 {"seed", static_cast<int64_t>(seed)}})}});
  const Json outcome =
      ServeOnce(*service, std::move(start), seed, outside, observer, *folder, interrupted);
  if (!outcome.contains("ok")) return ErrorIn(outcome);
  Json verdict = outcome["ok"];
  if (Status checked = CheckVerdict(verdict); !checked.ok()) return checked.error();
  return verdict;
}

Result<Json> EvaluateOnce(const EvaluatorBinding& evaluator, const Json& task,
                          const Json& candidate, const std::string& asked, uint64_t seed,
                          Registry& registry, WorkerPool& workers, RunObserver& observer,
                          const fs::path& scratch, const std::atomic<bool>& interrupted) {
  RegistryFactory factory(registry);
  ProcessWorkers port(workers);
  HttpModels models;
  SystemClock clock;
  return EvaluateOnce(evaluator, task, candidate, asked, seed, {factory, port, models, clock},
                      observer, scratch, interrupted);
}

ModelReply CompleteOnce(const std::string& alias, const ModelBinding& model, const Json& request,
                        const Outside& outside, RunObserver& observer, const fs::path& scratch,
                        const std::atomic<bool>& interrupted) {
  const Result<fs::path> folder = MakeScratch(scratch);
  if (!folder) return {folder.error(), Json::Obj()};
  const Result<internal::BoundModel> bound =
      internal::BindModel(alias, model, ContextOf(*folder, 0), outside.factory, outside.clock);
  if (!bound) return {bound.error(), Json::Obj()};
  Json start = Json::Obj({{"type", "start"}, {"request", request}, {"call", 0}});
  Json outcome =
      ServeOnce(bound->service, std::move(start), 0, outside, observer, *folder, interrupted);
  Json call = outcome["call"].is_object() ? std::as_const(outcome)["call"] : Json::Obj();
  if (!outcome.contains("ok")) return {ErrorIn(outcome), std::move(call)};
  return {std::as_const(outcome)["ok"], std::move(call)};
}

}  // namespace kernel_evolve
