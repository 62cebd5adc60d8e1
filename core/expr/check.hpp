// Types and names of an expression. Internal to expr/.
#pragma once

#include <vector>

#include "core/expr/ast.hpp"

namespace kernel_evolve::expr {

// Fills in `type` and `slot` of every node and appends what is wrong. Goes on after an error, so
// that one pass tells them all; a part that is wrong counts as dyn and causes no second error.
void Check(Expr* root, const TypeEnv& env, std::vector<Finding>* findings);

}  // namespace kernel_evolve::expr
