// The expression language: a subset of CEL, described operator by operator in LANGUAGE.md.
//
// An expression is pure. It is parsed, typed and name-checked once, then evaluated any number of
// times in bounded time and memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/expr/type.hpp"

namespace kernel_evolve::expr {

// One error of an expression. `begin` and `length` count characters (code points) inside the text,
// from 0. `code` is a stable diagnostic code (KE12xx); `hint` may be empty.
struct Problem {
  std::string code;
  int begin = 0;
  int length = 1;
  std::string message;
  std::string hint;
};

// What the caller needs the expression to be. `kCondition` must be bool; a value that is only known
// at run time is checked then.
enum class Want { kAnything, kCondition };

struct Compiled;

// A checked expression. Immutable; copies share the tree; safe to evaluate from several threads.
class Program {
 public:
  // Reports every problem it can tell apart; there is a program exactly when there is no problem.
  static Compiled Compile(std::string_view text, const TypeEnv& env, Want want = Want::kAnything);

  // `roots` is an object with a member per root name. Fails with class `validation`: division by
  // zero, overflow, a missing key or index, operands of the wrong type, a value that is not bool
  // where a condition was wanted, too many steps. The message names the expression.
  Result<Json> Evaluate(const Json& roots) const;

  const std::string& text() const;
  const Type& type() const;

  // "approve" when the whole expression is `result.label == "approve"` for path "result.label".
  std::optional<std::string> EqualsLiteral(std::string_view path) const;

  struct Tree;  // of the implementation

 private:
  explicit Program(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const Tree> tree_;
};

struct Compiled {
  std::optional<Program> program;
  std::vector<Problem> problems;  // sorted by position
};

}  // namespace kernel_evolve::expr
