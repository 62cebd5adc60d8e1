// What a run may spend and what it has spent. Amounts are reserved before the work is started and
// settled when it is done, so that work in flight together cannot overshoot together.
// Value types; not synchronised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/json.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve {

// An amount of everything that is counted. Cost is in the profile's currency.
struct Charge {
  int64_t steps = 0;
  int64_t llm_calls = 0;
  int64_t evaluations = 0;
  int64_t tokens = 0;
  double cost = 0;

  Charge& operator+=(const Charge& other);
  Charge& operator-=(const Charge& other);
  Json ToJson() const;
  static Charge FromJson(const Json& value);
};

// Every limit that `over` sets replaces the one of `base`.
graph::Budget Override(graph::Budget base, const graph::Budget& over);

class Ledger {
 public:
  Ledger() = default;
  explicit Ledger(graph::Budget limits) : limits_(limits) {}

  // Sets `amount` aside, or says which budget does not have it ("llm_calls") and sets nothing
  // aside.
  std::optional<std::string> Reserve(const Charge& amount);

  // The work is done: what was set aside for it is given back, what it used is spent. What it used
  // may be more; the next reservation then fails.
  void Settle(const Charge& reserved, const Charge& used);

  // Seconds since the run began; never goes back.
  void SetWall(double seconds);

  const Charge& spent() const { return spent_; }
  double wall_s() const { return wall_s_; }

  // "the budget of 60 llm_calls is spent"
  std::string Sentence(const std::string& budget) const;

  // {"wall", "steps", "llm_calls", "tokens", "cost", "evaluations"}; wall in seconds.
  Json Used() const;
  // Limits, and what is left of them; only what has a limit. Never below 0.
  Json Limits() const;
  Json Left() const;

 private:
  Json Limited(bool left) const;

  graph::Budget limits_;
  Charge spent_;
  Charge reserved_;
  double wall_s_ = 0;
};

}  // namespace kernel_evolve
