#include "core/engine/model_use.hpp"

#include <algorithm>

#include "core/llm/message.hpp"

namespace kernel_evolve {

void ModelUse::Add(const Json& outcome, double call_cost) {
  const Json& call = outcome["call"];
  ++calls;
  if (!outcome.contains("ok")) ++errors;
  retries += std::max<int64_t>(call.Integer("attempts", 1) - 1, 0);
  const TokenUsage tokens = UsageOf(outcome["ok"]);
  input_tokens += tokens.input;
  output_tokens += tokens.output;
  cached_tokens += std::max<int64_t>(outcome["ok"]["usage"].Integer("cached_tokens"), 0);
  cost += call_cost;
  const double took = std::max(call.Number("seconds"), 0.0);
  seconds += took;
  longest_s = std::max(longest_s, took);
  if (!call["failures"].is_object()) return;
  for (const auto& [kind, count] : call["failures"].object()) {
    if (count.is_integer()) failures[kind] += count.integer();
  }
}

Json ModelUse::ToJson() const {
  Json failed = Json::Obj();
  for (const auto& [kind, count] : failures) failed[kind] = count;
  return Json::Obj({{"calls", calls},
                    {"errors", errors},
                    {"retries", retries},
                    {"input_tokens", input_tokens},
                    {"output_tokens", output_tokens},
                    {"cached_tokens", cached_tokens},
                    {"cost", cost},
                    {"seconds", seconds},
                    {"longest_s", longest_s},
                    {"failures", std::move(failed)}});
}

}  // namespace kernel_evolve
