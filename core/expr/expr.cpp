#include "core/expr/expr.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/text.hpp"
#include "core/expr/ast.hpp"
#include "core/expr/check.hpp"
#include "core/expr/evaluate.hpp"
#include "core/expr/parser.hpp"

namespace kernel_evolve::expr {

struct Program::Tree {
  std::string text;
  ExprPtr root;
  Want want = Want::kAnything;
};

namespace {

Problem ToProblem(std::string_view text, const Finding& finding) {
  const size_t begin = std::min(finding.span.begin, text.size());
  const size_t end = std::clamp(finding.span.end, begin, text.size());
  Problem problem;
  problem.code = finding.code;
  problem.begin = static_cast<int>(CountCodePoints(text.substr(0, begin)));
  problem.length = std::max(1, static_cast<int>(CountCodePoints(text.substr(begin, end - begin))));
  problem.message = finding.message;
  problem.hint = finding.hint;
  return problem;
}

void CheckWant(const Expr& root, Want want, std::vector<Finding>* findings) {
  if (want == Want::kAnything) {
    if (root.type.is(Kind::kOptional)) {
      findings->push_back({"KE1205", root.span, "the value may be missing", "add .orValue(...)"});
    }
    return;
  }
  if (root.type.is(Kind::kBool) || root.type.is(Kind::kDyn)) return;
  const bool optional = root.type.is(Kind::kOptional);
  findings->push_back(
      {"KE1209", root.span, "a condition must be a bool, this is of type " + TypeName(root.type),
       optional ? "add .hasValue() or .orValue(...)" : "compare it with something"});
}

}  // namespace

Compiled Program::Compile(std::string_view text, const TypeEnv& env, Want want) {
  Compiled compiled;
  std::vector<Finding> findings;
  auto tree = std::make_shared<Tree>();
  tree->text = std::string(text);
  tree->want = want;
  tree->root = Parse(tree->text, &findings);
  if (tree->root != nullptr) {
    Check(tree->root.get(), env, &findings);
    if (findings.empty()) CheckWant(*tree->root, want, &findings);
  }
  for (const Finding& finding : findings) compiled.problems.push_back(ToProblem(text, finding));
  std::stable_sort(compiled.problems.begin(), compiled.problems.end(),
                   [](const Problem& a, const Problem& b) {
                     return std::tie(a.begin, a.code) < std::tie(b.begin, b.code);
                   });
  if (findings.empty()) compiled.program = Program(std::move(tree));
  return compiled;
}

Result<Json> Program::Evaluate(const Json& roots) const {
  Result<Json> value = expr::Evaluate(*tree_->root, tree_->text, roots);
  if (value.ok() && tree_->want == Want::kCondition && !value->is_bool()) {
    return Failed(ErrorClass::kValidation, "the condition '" + tree_->text +
                                               "' gave a value of type " + value->type_name() +
                                               ", not a bool");
  }
  return value;
}

const std::string& Program::text() const { return tree_->text; }

const Type& Program::type() const { return tree_->root->type; }

std::optional<std::string> Program::EqualsLiteral(std::string_view path) const {
  const Expr& root = *tree_->root;
  if (root.op != Op::kEqual) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const Expr& literal = *root.args[1 - side];
    if (PathOf(*root.args[side]) == path && literal.op == Op::kLiteral &&
        literal.literal.is_string()) {
      return literal.literal.string();
    }
  }
  return std::nullopt;
}

}  // namespace kernel_evolve::expr
