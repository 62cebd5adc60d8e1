// What the framework reads of a verdict. The full record belongs to the evaluator and stays Json.
// Pure functions.
#pragma once

#include <optional>

#include "core/base/json.hpp"

namespace kernel_evolve {

// The speedup that counts: of a full verdict that passed every stage and is correct. Nothing for a
// compile-only verdict, a failed one, or one without a number.
std::optional<double> CountedSpeedup(const Json& verdict);

// Whether `value` has the members that everyone relies on (stage, asked, ok, correct, reason). The
// error is one sentence of class invalid_output.
Status CheckVerdict(const Json& value);

}  // namespace kernel_evolve
