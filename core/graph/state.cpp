#include "core/graph/state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/text.hpp"
#include "core/graph/fields.hpp"

namespace kernel_evolve::graph {
namespace {

struct TypeRow {
  ValueType type;
  const char* name;
  const char* form;  // how a literal of it looks
};

constexpr std::array<TypeRow, 11> kTypes = {{
    {ValueType::kBool, "bool", "true or false"},
    {ValueType::kInteger, "integer", "a whole number such as 8"},
    {ValueType::kNumber, "number", "a number such as 2.0"},
    {ValueType::kString, "string", "a text"},
    {ValueType::kDuration, "duration", "a duration such as 30m, 1h30m or 45s"},
    {ValueType::kCount, "count", "a count such as 60, 400k or 1M"},
    {ValueType::kArray, "array", "a list"},
    {ValueType::kObject, "object", "a mapping"},
    {ValueType::kTask, "task", "a task"},
    {ValueType::kCandidate, "candidate", "a candidate"},
    {ValueType::kVerdict, "verdict", "a verdict"},
}};

struct RuleRow {
  MergeRule rule;
  const char* name;
};

constexpr std::array<RuleRow, 7> kRules = {{
    {MergeRule::kReplace, "replace"},
    {MergeRule::kAppend, "append"},
    {MergeRule::kSum, "sum"},
    {MergeRule::kMax, "max"},
    {MergeRule::kUnion, "union"},
    {MergeRule::kMergeObject, "merge_object"},
    {MergeRule::kBest, "best"},
}};

const char* FormOf(ValueType type) { return kTypes[static_cast<size_t>(type)].form; }

Error Wrong(std::string message) { return Failed(ErrorClass::kValidation, std::move(message)); }

Error NotOfType(ValueType type, const std::string& shown) {
  return Wrong(shown + " is not of type " + ValueTypeName(type) + ", which is " + FormOf(type));
}

bool IsObjectType(ValueType type) {
  return type == ValueType::kObject || type == ValueType::kTask || type == ValueType::kCandidate ||
         type == ValueType::kVerdict;
}

bool IsNumberType(ValueType type) {
  return type == ValueType::kInteger || type == ValueType::kNumber ||
         type == ValueType::kDuration || type == ValueType::kCount;
}

// The members every node and evaluator relies on.
Status CheckMembers(ValueType type, const Json& value) {
  const auto missing = [type](const char* what) {
    return Wrong(std::string("a ") + ValueTypeName(type) + " needs " + what);
  };
  if (type == ValueType::kTask && !value["source"].is_string()) {
    return missing("the text 'source'");
  }
  if (type == ValueType::kCandidate && !value["code"].is_string()) {
    return missing("the text 'code'");
  }
  if (type == ValueType::kVerdict) {
    if (!value["stage"].is_string()) return missing("the text 'stage'");
    if (!value["ok"].is_bool()) return missing("the bool 'ok'");
  }
  return {};
}

}  // namespace

const char* ValueTypeName(ValueType type) { return kTypes[static_cast<size_t>(type)].name; }

std::optional<ValueType> ParseValueType(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

std::vector<std::string> ValueTypeNames() {
  std::vector<std::string> names;
  for (const TypeRow& row : kTypes) names.emplace_back(row.name);
  return names;
}

const char* MergeRuleName(MergeRule rule) { return kRules[static_cast<size_t>(rule)].name; }

std::optional<MergeRule> ParseMergeRule(std::string_view name) {
  for (const RuleRow& row : kRules) {
    if (name == row.name) return row.rule;
  }
  return std::nullopt;
}

std::vector<std::string> MergeRuleNames() {
  std::vector<std::string> names;
  for (const RuleRow& row : kRules) names.emplace_back(row.name);
  return names;
}

bool MergeRuleFits(MergeRule rule, ValueType type) {
  switch (rule) {
    case MergeRule::kReplace:
      return true;
    case MergeRule::kAppend:
    case MergeRule::kUnion:
      return type == ValueType::kArray;
    case MergeRule::kSum:
    case MergeRule::kMax:
      return IsNumberType(type);
    case MergeRule::kMergeObject:
      return type == ValueType::kObject;
    case MergeRule::kBest:
      return type == ValueType::kCandidate;
  }
  return false;
}

bool TypeFlows(ValueType from, ValueType to) {
  if (from == to) return true;
  if (to == ValueType::kNumber) return IsNumberType(from);
  if (to == ValueType::kInteger) return from == ValueType::kCount;
  if (to == ValueType::kObject) return IsObjectType(from);
  return false;
}

Status CheckValue(ValueType type, const Json& value) {
  const std::string shown =
      value.is_null() ? "nothing" : std::string("a value of type ") + value.type_name();
  bool fits = false;
  switch (type) {
    case ValueType::kBool:
      fits = value.is_bool();
      break;
    case ValueType::kInteger:
      fits = value.is_integer();
      break;
    case ValueType::kNumber:
      fits = value.is_number();
      break;
    case ValueType::kString:
      fits = value.is_string();
      break;
    case ValueType::kDuration:
      fits = value.is_number() && value.number() >= 0;
      break;
    case ValueType::kCount:
      fits = value.is_integer() && value.integer() >= 0;
      break;
    case ValueType::kArray:
      fits = value.is_array();
      break;
    default:
      fits = value.is_object();
      break;
  }
  const bool infinite = value.is_double() && !std::isfinite(value.number());
  if (!fits || infinite) return NotOfType(type, shown);
  return CheckMembers(type, value);
}

Result<Json> ParseValue(ValueType type, std::string_view text) {
  const std::string own(text);
  const std::optional<Json> plain = ReadPlainScalar(own);
  switch (type) {
    case ValueType::kString:
      return Json(own);
    case ValueType::kBool:
      if (plain && plain->is_bool()) return *plain;
      break;
    case ValueType::kInteger:
      if (plain && plain->is_integer()) return *plain;
      break;
    case ValueType::kNumber:
      if (plain && plain->is_number()) return Json(plain->number());
      break;
    case ValueType::kDuration:
      if (const std::optional<double> seconds = ParseDuration(text)) return Json(*seconds);
      break;
    case ValueType::kCount:
      if (const std::optional<int64_t> count = ParseCount(text)) return Json(*count);
      break;
    default: {
      Result<Json> parsed = Json::Parse(text);
      if (!parsed.ok()) break;
      const Status fits = CheckValue(type, *parsed);
      if (!fits.ok()) return fits.error();
      return parsed;
    }
  }
  return NotOfType(type, Quoted(text));
}

namespace {

// Whether a candidate counts for `best`, and how it ranks there.
std::optional<double> RankOf(const Json& candidate) {
  const Json& verdict = candidate["verdict"];
  if (!verdict.Flag("correct")) return std::nullopt;
  if (candidate["speedup"].is_number()) return candidate["speedup"].number();
  const Json& measured = verdict["metrics"]["speedup"];
  // Correct, but nobody measured it: better than nothing, worse than anything measured.
  return measured.is_number() ? measured.number() : -std::numeric_limits<double>::infinity();
}

Json MergeBest(const Json* old, const Json& patch) {
  const std::optional<double> next = RankOf(patch);
  if (old == nullptr) return next ? patch : Json();
  const std::optional<double> held = RankOf(*old);
  return next && (!held || *next > *held) ? patch : *old;
}

Json::Array ItemsOf(const Json& patch) {
  return patch.is_array() ? patch.array() : Json::Array{patch};
}

Json MergeUnion(const Json* old, const Json& patch) {
  Json::Array kept = old != nullptr ? old->array() : Json::Array{};
  for (const Json& item : ItemsOf(patch)) {
    if (std::find(kept.begin(), kept.end(), item) == kept.end()) kept.push_back(item);
  }
  return Json(std::move(kept));
}

Result<Json> MergeSum(const Channel& channel, const Json& old, const Json& patch) {
  if (old.is_integer() && patch.is_integer()) {
    int64_t sum = 0;
    if (!__builtin_add_overflow(old.integer(), patch.integer(), &sum)) return Json(sum);
  } else {
    const double sum = old.number() + patch.number();
    if (std::isfinite(sum)) return Json(sum);
  }
  return Wrong("channel '" + channel.name + "': the sum is out of range");
}

}  // namespace

Result<Json> MergeChannel(const Channel& channel, const Json* old, const Json& patch) {
  const bool adds_items = channel.merge == MergeRule::kAppend || channel.merge == MergeRule::kUnion;
  if (!adds_items || patch.is_null()) {
    const Status fits = CheckValue(channel.type, patch);
    if (!fits.ok()) return Wrong("channel '" + channel.name + "': " + fits.error().message);
  }
  switch (channel.merge) {
    case MergeRule::kReplace:
      return patch;
    case MergeRule::kAppend: {
      Json::Array joined = old != nullptr ? old->array() : Json::Array{};
      for (Json& item : ItemsOf(patch)) joined.push_back(std::move(item));
      return Json(std::move(joined));
    }
    case MergeRule::kUnion:
      return MergeUnion(old, patch);
    case MergeRule::kSum:
      return old == nullptr ? Result<Json>(patch) : MergeSum(channel, *old, patch);
    case MergeRule::kMax:
      return old != nullptr && old->number() >= patch.number() ? *old : patch;
    case MergeRule::kMergeObject: {
      Json merged = old != nullptr ? *old : Json::Obj();
      for (const auto& [key, value] : patch.object()) merged[key] = value;
      return merged;
    }
    case MergeRule::kBest:
      return MergeBest(old, patch);
  }
  return patch;
}

}  // namespace kernel_evolve::graph
