#include "core/engine/budget.hpp"

#include <algorithm>

namespace kernel_evolve {
namespace {

// One line per thing that is counted, so that no list of them exists twice.
struct Counter {
  const char* name;
  int64_t Charge::*amount;
  std::optional<int64_t> graph::Budget::*limit;
};

constexpr Counter kCounters[] = {
    {"steps", &Charge::steps, &graph::Budget::steps},
    {"llm_calls", &Charge::llm_calls, &graph::Budget::llm_calls},
    {"evaluations", &Charge::evaluations, &graph::Budget::evaluations},
    {"tokens", &Charge::tokens, &graph::Budget::tokens},
};

// Sums of prices carry rounding errors; a limit that is met exactly must not fail by one of them.
constexpr double kCostSlack = 1e-9;

}  // namespace

Charge& Charge::operator+=(const Charge& other) {
  for (const Counter& counter : kCounters) this->*counter.amount += other.*counter.amount;
  cost += other.cost;
  return *this;
}

Charge& Charge::operator-=(const Charge& other) {
  for (const Counter& counter : kCounters) this->*counter.amount -= other.*counter.amount;
  cost -= other.cost;
  return *this;
}

Json Charge::ToJson() const {
  Json out = Json::Obj({{"cost", cost}});
  for (const Counter& counter : kCounters) out[counter.name] = this->*counter.amount;
  return out;
}

Charge Charge::FromJson(const Json& value) {
  Charge out;
  for (const Counter& counter : kCounters) out.*counter.amount = value.Integer(counter.name);
  out.cost = value.Number("cost");
  return out;
}

graph::Budget Override(graph::Budget base, const graph::Budget& over) {
  for (const Counter& counter : kCounters) {
    if (over.*counter.limit) base.*counter.limit = over.*counter.limit;
  }
  if (over.wall_s) base.wall_s = over.wall_s;
  if (over.cost) base.cost = over.cost;
  return base;
}

std::optional<std::string> Ledger::Reserve(const Charge& amount) {
  Charge total = spent_;
  total += reserved_;
  total += amount;
  for (const Counter& counter : kCounters) {
    const std::optional<int64_t>& limit = limits_.*counter.limit;
    // What asks for nothing is not refused, although an earlier call may have overshot.
    if (limit && amount.*counter.amount > 0 && total.*counter.amount > *limit) return counter.name;
  }
  if (limits_.cost && amount.cost > 0 && total.cost > *limits_.cost * (1 + kCostSlack)) {
    return "cost";
  }
  reserved_ += amount;
  return std::nullopt;
}

void Ledger::Settle(const Charge& reserved, const Charge& used) {
  reserved_ -= reserved;
  spent_ += used;
}

void Ledger::SetWall(double seconds) { wall_s_ = std::max(wall_s_, seconds); }

std::string Ledger::Sentence(const std::string& budget) const {
  const std::string limit = Limits()[budget].Dump();
  if (budget == "wall") return "the budget of " + limit + " s wall time is spent";
  const double left = Left().Number(budget);
  if ((budget == "tokens" || budget == "cost") && left > 0) {
    return "what is left of the budget of " + limit + " " + budget +
           " does not cover another model call";
  }
  return "the budget of " + limit + " " + budget + " is spent";
}

Json Ledger::Used() const {
  Json out = spent_.ToJson();
  out["wall"] = wall_s_;
  return out;
}

Json Ledger::Limits() const { return Limited(false); }

Json Ledger::Left() const { return Limited(true); }

Json Ledger::Limited(bool left) const {
  Json out = Json::Obj();
  for (const Counter& counter : kCounters) {
    const std::optional<int64_t>& limit = limits_.*counter.limit;
    if (!limit) continue;
    const int64_t used = left ? spent_.*counter.amount : 0;
    out[counter.name] = std::max<int64_t>(*limit - used, 0);
  }
  if (limits_.wall_s) out["wall"] = std::max(*limits_.wall_s - (left ? wall_s_ : 0), 0.0);
  if (limits_.cost) out["cost"] = std::max(*limits_.cost - (left ? spent_.cost : 0), 0.0);
  return out;
}

}  // namespace kernel_evolve
