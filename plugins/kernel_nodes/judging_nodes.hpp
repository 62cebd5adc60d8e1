// The nodes that ask the evaluator, and the one that ends a run with a sentence.
#pragma once

#include <kernel_evolve/plugin.hpp>

namespace kernel_nodes {

// Compiles the candidate and checks it statically; a failure is a verdict, not an error.
class CompileNode : public kernel_evolve::sdk::Resumable {
 public:
  using Resumable::Resumable;
  kernel_evolve::sdk::Outcome Step(const nlohmann::json& event) override;

 private:
  nlohmann::json candidate_;
};

// Has the candidate judged in full. A correct one is offered to the channel `best`.
class EvaluateNode : public kernel_evolve::sdk::Resumable {
 public:
  using Resumable::Resumable;
  kernel_evolve::sdk::Outcome Step(const nlohmann::json& event) override;

 private:
  nlohmann::json candidate_;
};

// Ends the run as failed, with the reason that `with.reason` gives.
class StopNode : public kernel_evolve::sdk::Resumable {
 public:
  using Resumable::Resumable;
  kernel_evolve::sdk::Outcome Step(const nlohmann::json& event) override;
};

}  // namespace kernel_nodes
