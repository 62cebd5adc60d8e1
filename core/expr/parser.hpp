// Tokens to a syntax tree. Internal to expr/.
#pragma once

#include <string_view>
#include <vector>

#include "core/expr/ast.hpp"

namespace kernel_evolve::expr {

// The tree, or nullptr with at least one finding: a syntax error stands alone.
ExprPtr Parse(std::string_view text, std::vector<Finding>* findings);

}  // namespace kernel_evolve::expr
