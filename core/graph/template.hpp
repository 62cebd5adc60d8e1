// `with:` of a node: a JSON value in which strings may hold `${expression}`.
// Immutable once loaded; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/expr/expr.hpp"

namespace kernel_evolve::graph {

class WithTemplate {
 public:
  // A string: literal text and expressions in turn.
  struct Text {
    std::vector<std::variant<std::string, expr::Program>> parts;
    bool whole = false;  // only `${expr}`: keeps the type of the expression
  };
  using Members = std::vector<std::pair<std::string, WithTemplate>>;
  using Items = std::vector<WithTemplate>;

  WithTemplate() : data_(Json::Obj()) {}
  explicit WithTemplate(Json literal) : data_(std::move(literal)) {}
  explicit WithTemplate(Text text) : data_(std::move(text)) {}
  explicit WithTemplate(Members members) : data_(std::move(members)) {}
  explicit WithTemplate(Items items) : data_(std::move(items)) {}

  // True when no part of it depends on the run.
  bool constant() const;

  // Fails with class `validation` as an expression does.
  Result<Json> Evaluate(const Json& roots) const;

 private:
  std::variant<Json, Text, Members, Items> data_;
};

}  // namespace kernel_evolve::graph
