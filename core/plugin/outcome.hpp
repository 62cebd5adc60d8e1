// The structure of what a step answers. Pure functions.
#pragma once

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/plugin/registry.hpp"

namespace kernel_evolve {

// Whether `outcome` is exactly one of {"effects"}, {"done"} and {"error"}, each well-formed for a
// type of that kind: effects known, complete and with distinct ids; a provider's done with its
// response, an evaluator's with its verdict; an error of a known class. The error's message says
// what is wrong, beginning with the place ("effects[1].id: ..."); its class is invalid_output.
Status CheckOutcome(TypeKind kind, const Json& outcome);

}  // namespace kernel_evolve
