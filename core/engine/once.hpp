// One evaluation or one model call outside of any run. Both block the calling thread until the end,
// tell `observer` of progress there, and end as cancelled soon after `interrupted` is set. Several
// threads may call at once and share all that they pass; with one scratch folder and one seed, they
// also share the processes that an evaluator keeps between candidates.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/engine/engine.hpp"

namespace kernel_evolve {

// Has one candidate ({"code", ...}) judged and returns the verdict. `asked` is "compile", "full"
// or, of an evaluator that declares tries_tasks, "task". `scratch` is made if missing.
Result<Json> EvaluateOnce(const EvaluatorBinding& evaluator, const Json& task,
                          const Json& candidate, const std::string& asked, uint64_t seed,
                          Registry& registry, WorkerPool& workers, RunObserver& observer,
                          const std::filesystem::path& scratch,
                          const std::atomic<bool>& interrupted);
Result<Json> EvaluateOnce(const EvaluatorBinding& evaluator, const Json& task,
                          const Json& candidate, const std::string& asked, uint64_t seed,
                          const Outside& outside, RunObserver& observer,
                          const std::filesystem::path& scratch,
                          const std::atomic<bool>& interrupted);

// Makes one model call. The response has not been checked against the request (CheckResponse).
// `alias` is for sentences.
ModelReply CompleteOnce(const std::string& alias, const ModelBinding& model, const Json& request,
                        const Outside& outside, RunObserver& observer,
                        const std::filesystem::path& scratch, const std::atomic<bool>& interrupted);

}  // namespace kernel_evolve
