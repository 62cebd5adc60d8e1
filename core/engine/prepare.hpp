// From what the user wants run to a plan and its bindings, with every mistake that can be seen
// before a run found here. Internal to engine/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/engine/plan.hpp"
#include "core/engine/scheduler.hpp"

namespace kernel_evolve::internal {

struct Prepared {
  Plan plan;
  Bindings bindings;
};

// Checks inputs, models and the evaluator, then makes and destroys one instance of each provider,
// of the evaluator, and of each node whose parameters do not depend on the run. `run_dir` exists.
// Errors: validation, exit 2, or whatever a plugin's `create` says.
Result<Prepared> Prepare(const RunSpec& spec, InstanceFactory& factory, Clock& clock);

// The evaluator alone, for a single evaluation.
Result<BoundService> BindEvaluator(const EvaluatorBinding& binding, const Json& context,
                                   InstanceFactory& factory);

// One model alias, tried: the provider's parameters, the endpoint's options, that every secret is
// there.
struct BoundModel {
  BoundService service;
  ModelTerms terms;
  std::vector<std::string> capabilities;  // as the profile says, else as the provider declares
};
Result<BoundModel> BindModel(const std::string& alias, const ModelBinding& binding,
                             const Json& context, InstanceFactory& factory, Clock& clock);

// Everything that identifies the run, for the journal.
Json DescribeRun(const RunSpec& spec, const Prepared& prepared, Clock& clock);

}  // namespace kernel_evolve::internal
