#include "core/graph/template.hpp"

#include <algorithm>

#include "core/expr/functions.hpp"

namespace kernel_evolve::graph {
namespace {

// How a value looks inside a longer text.
std::string TextOf(const Json& value) {
  if (value.is_string()) return value.string();
  if (value.is_double()) return expr::DoubleText(value.number());
  return value.Dump();
}

Result<Json> EvaluateText(const WithTemplate::Text& text, const Json& roots) {
  std::string joined;
  for (const auto& part : text.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) {
      joined += *literal;
      continue;
    }
    Result<Json> value = std::get<expr::Program>(part).Evaluate(roots);
    if (!value.ok() || text.whole) return value;
    joined += TextOf(*value);
  }
  return Json(std::move(joined));
}

}  // namespace

bool WithTemplate::constant() const {
  if (std::holds_alternative<Json>(data_)) return true;
  if (std::holds_alternative<Text>(data_)) return false;
  if (const auto* members = std::get_if<Members>(&data_)) {
    return std::all_of(members->begin(), members->end(),
                       [](const auto& member) { return member.second.constant(); });
  }
  const auto& items = std::get<Items>(data_);
  return std::all_of(items.begin(), items.end(),
                     [](const WithTemplate& item) { return item.constant(); });
}

Result<Json> WithTemplate::Evaluate(const Json& roots) const {
  if (const auto* literal = std::get_if<Json>(&data_)) return *literal;
  if (const auto* text = std::get_if<Text>(&data_)) return EvaluateText(*text, roots);
  if (const auto* members = std::get_if<Members>(&data_)) {
    Json made = Json::Obj();
    for (const auto& [key, value] : *members) {
      Result<Json> one = value.Evaluate(roots);
      if (!one.ok()) return one;
      made[key] = std::move(*one);
    }
    return made;
  }
  Json::Array made;
  for (const WithTemplate& item : std::get<Items>(data_)) {
    Result<Json> one = item.Evaluate(roots);
    if (!one.ok()) return one;
    made.push_back(std::move(*one));
  }
  return Json(std::move(made));
}

}  // namespace kernel_evolve::graph
