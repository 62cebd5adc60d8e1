#include "core/expr/functions.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/base/text.hpp"
#include "core/expr/pattern.hpp"

namespace kernel_evolve::expr {
namespace {

Error Wrong(std::string message) { return Failed(ErrorClass::kValidation, std::move(message)); }

Error NoSuchCall(std::string_view name, const std::vector<const Json*>& args) {
  std::string types;
  for (const Json* arg : args) types += (types.empty() ? "" : ", ") + std::string(arg->type_name());
  return Wrong(std::string(name) + "() does not take (" + types + ")");
}

std::string Shown(const std::string& text) {
  return "'" + (text.size() > 40 ? text.substr(0, 40) + "..." : text) + "'";
}

template <typename Number>
std::optional<Number> ReadNumber(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

Result<Json> ToInt(const Json& value) {
  if (value.is_integer()) return value;
  if (value.is_double()) {
    // 2^63 is the first double that does not fit; the lower bound itself does.
    if (!(value.number() >= -0x1p63 && value.number() < 0x1p63)) {
      return Wrong("int(): the number is out of range (64 bits)");
    }
    return Json(static_cast<int64_t>(value.number()));
  }
  if (value.is_string()) {
    const std::optional<int64_t> read = ReadNumber<int64_t>(value.string());
    if (!read) return Wrong("int(): " + Shown(value.string()) + " is not an integer");
    return Json(*read);
  }
  return NoSuchCall("int", {&value});
}

Result<Json> ToDouble(const Json& value) {
  if (value.is_number()) return Json(value.number());
  if (value.is_string()) {
    const std::optional<double> read = ReadNumber<double>(value.string());
    if (!read || !std::isfinite(*read)) {
      return Wrong("double(): " + Shown(value.string()) + " is not a number");
    }
    return Json(*read);
  }
  return NoSuchCall("double", {&value});
}

Result<Json> ToText(const Json& value) {
  if (value.is_string()) return value;
  if (value.is_bool()) return Json(value.boolean() ? "true" : "false");
  if (value.is_integer()) return Json(std::to_string(value.integer()));
  if (value.is_double()) return Json(DoubleText(value.number()));
  return NoSuchCall("string", {&value});
}

Result<Json> ToBool(const Json& value) {
  if (value.is_bool()) return value;
  if (value.is_string()) {
    if (value.string() == "true") return Json(true);
    if (value.string() == "false") return Json(false);
    return Wrong("bool(): " + Shown(value.string()) + " is neither 'true' nor 'false'");
  }
  return NoSuchCall("bool", {&value});
}

Result<Json> Size(const Json& value) {
  if (value.is_string()) return Json(CountCodePoints(value.string()));
  if (value.is_array() || value.is_object()) return Json(value.size());
  return NoSuchCall("size", {&value});
}

}  // namespace

std::string DoubleText(double value) {
  std::array<char, 40> buffer{};
  const auto wrote = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), wrote.ptr);
}

const std::vector<Function>& Functions() {
  static const std::vector<Function> functions = {
      {"size", false, {"slm"}, Kind::kInt},
      {"size", true, {"slm"}, Kind::kInt},
      {"int", false, {"ids"}, Kind::kInt},
      {"double", false, {"ids"}, Kind::kDouble},
      {"string", false, {"bids"}, Kind::kString},
      {"bool", false, {"bs"}, Kind::kBool},
      {"dyn", false, {"*"}, Kind::kDyn},
      {"startsWith", true, {"s", "s"}, Kind::kBool},
      {"endsWith", true, {"s", "s"}, Kind::kBool},
      {"contains", true, {"s", "s"}, Kind::kBool},
      {"matches", true, {"s", "s"}, Kind::kBool},
      {"orValue", true, {"o", "*"}, Kind::kDyn},
      {"or", true, {"o", "o"}, Kind::kOptional},
      {"hasValue", true, {"o"}, Kind::kBool},
      {"value", true, {"o"}, Kind::kDyn},
      {"optional.of", false, {"*"}, Kind::kOptional},
      {"optional.none", false, {}, Kind::kOptional},
  };
  return functions;
}

Result<Json> CallFunction(std::string_view name, const std::vector<const Json*>& args) {
  if (name == "size") return Size(*args[0]);
  if (name == "int") return ToInt(*args[0]);
  if (name == "double") return ToDouble(*args[0]);
  if (name == "string") return ToText(*args[0]);
  if (name == "bool") return ToBool(*args[0]);
  if (name == "dyn") return *args[0];
  if (args.size() != 2 || !args[0]->is_string() || !args[1]->is_string()) {
    return NoSuchCall(name, args);
  }
  const std::string_view text = args[0]->string();
  const std::string_view part = args[1]->string();
  if (name == "startsWith") return Json(text.starts_with(part));
  if (name == "endsWith") return Json(text.ends_with(part));
  if (name == "contains") return Json(text.find(part) != std::string_view::npos);
  Result<bool> found = MatchPattern(part, text);
  if (!found.ok()) return found.error();
  return Json(found.value());
}

}  // namespace kernel_evolve::expr
