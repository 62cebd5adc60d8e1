// Runs a checked tree. Internal to expr/.
#pragma once

#include <string>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/expr/ast.hpp"

namespace kernel_evolve::expr {

// `roots` holds a member per root name. Fails with class `validation`; the message quotes the part
// of `text` that failed. An optional without a value fails, one with a value gives the value.
Result<Json> Evaluate(const Expr& root, const std::string& text, const Json& roots);

}  // namespace kernel_evolve::expr
