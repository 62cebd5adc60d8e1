// The syntax tree of an expression and the limits it is held to. Internal to expr/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/expr/type.hpp"

namespace kernel_evolve::expr {

// A graph's expressions are a line or two; these bounds are far above that and keep a hostile
// document from costing more than milliseconds.
inline constexpr size_t kMaxTextBytes = 8192;
inline constexpr int kMaxDepth = 64;       // of brackets and operators, while parsing
inline constexpr int kMaxTreeDepth = 200;  // of the tree, chains included
inline constexpr int64_t kMaxSteps = 100'000;
inline constexpr size_t kMaxStringBytes = size_t{1} << 20U;

enum class Op {
  kLiteral,
  kIdent,      // a root, or a variable of a macro (then `slot` >= 0)
  kSelect,     // args[0].name
  kOptSelect,  // args[0].?name
  kHas,        // has(args[0].name)
  kIndex,      // args[0][args[1]]
  kOptIndex,   // args[0][?args[1]]
  kNot,
  kNegate,
  kAnd,
  kOr,
  kTernary,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kList,
  kMap,     // args: key, value, key, value, ...
  kCall,    // name(args...)
  kMethod,  // args[0].name(args[1]...)
  kMacro,   // args[0].name(variable, args[1][, args[2]]); variable in `slot`
};

// Byte offsets into the text; the caller turns them into characters.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

struct Expr {
  Op op = Op::kLiteral;
  Span span;       // all of it
  Span name_span;  // of the operator, member or function name
  std::string name;
  std::string variable;  // of a macro
  Json literal;
  std::vector<std::unique_ptr<Expr>> args;
  Type type;      // filled in by the checker
  int slot = -1;  // filled in by the checker
};

using ExprPtr = std::unique_ptr<Expr>;

// "state.best.speedup" for a chain of plain member accesses on a name, else "".
std::string PathOf(const Expr& expr);

// A problem in byte offsets.
struct Finding {
  std::string code;
  Span span;
  std::string message;
  std::string hint;
};

}  // namespace kernel_evolve::expr
