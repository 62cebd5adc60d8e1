// The functions of the language that take and give plain values. Internal to expr/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/expr/type.hpp"

namespace kernel_evolve::expr {

// One function. `takes` lists, per argument (a method's receiver first), the kinds it accepts as a
// string of letters: b bool, i int, d double, s string, l list, m map, o optional, * anything.
struct Function {
  std::string_view name;
  bool method = false;  // called as receiver.name(...), else as name(...)
  std::vector<std::string_view> takes;
  Kind gives = Kind::kDyn;
};

const std::vector<Function>& Functions();

// Calls one that has no optional among its arguments or its result. Fails with class `validation`.
Result<Json> CallFunction(std::string_view name, const std::vector<const Json*>& args);

// The shortest text that reads back as the same double: "1", "0.1", "1e+21".
std::string DoubleText(double value);

}  // namespace kernel_evolve::expr
