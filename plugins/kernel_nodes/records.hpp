// Candidates and verdicts as the nodes pass them on and as authors read them. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kernel_nodes {

// The candidate together with its verdict, as `best` channels and prompts keep it.
nlohmann::json WithVerdict(const nlohmann::json& candidate, const nlohmann::json& verdict);

// One line of the run's history, for the channel `attempts`.
nlohmann::json AttemptOf(const nlohmann::json& candidate, const nlohmann::json& verdict);

// Whether a verdict says that the candidate computes the right values.
bool IsCorrect(const nlohmann::json& verdict);

// Whether `judged` (as WithVerdict makes it) is a better answer than `held`, which may be null:
// correct before anything else, then judged on enough data, then the speedup; the earlier one on a
// tie. The engine ranks a run's candidates the same way.
bool IsBetter(const nlohmann::json& judged, const nlohmann::json& held);

// "2.314 times as fast as eager", or "" without a speedup.
std::string SpeedupText(const nlohmann::json& judged);

// A verdict as an author reads it: what came of it in a few words, the reason, then the evaluator's
// feedback, a line each.
std::string VerdictText(const nlohmann::json& verdict);

// Four significant digits.
std::string Figure(double value);

// object[key] when that is text, else "".
std::string Text(const nlohmann::json& object, const char* key);

}  // namespace kernel_nodes
