// Types of values, and how a node's patch is merged into a channel of the state.
// Pure functions and value types; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve::graph {

// A duration is a number of seconds, a count an integer from 0 up. Task, candidate and verdict are
// objects with the members that every node and evaluator relies on.
enum class ValueType {
  kBool,
  kInteger,
  kNumber,
  kString,
  kDuration,
  kCount,
  kArray,
  kObject,
  kTask,
  kCandidate,
  kVerdict,
};

enum class MergeRule { kReplace, kAppend, kSum, kMax, kUnion, kMergeObject, kBest };

// "bool", "integer", ... as a graph writes it, and back.
const char* ValueTypeName(ValueType type);
std::optional<ValueType> ParseValueType(std::string_view name);
std::vector<std::string> ValueTypeNames();

const char* MergeRuleName(MergeRule rule);
std::optional<MergeRule> ParseMergeRule(std::string_view name);
std::vector<std::string> MergeRuleNames();

// Whether a channel of this type can have that rule: `sum` needs a number, `best` a candidate, ...
bool MergeRuleFits(MergeRule rule, ValueType type);

// Whether a value of type `from` may flow to where `to` is expected: equal, or a narrowing of it
// (integer to number, candidate to object).
bool TypeFlows(ValueType from, ValueType to);

// Fails with class `validation` and one sentence when `value` is not of that type.
Status CheckValue(ValueType type, const Json& value);

// Reads text that a person typed ("30m", "400k", "true", a JSON array) as a value of that type.
Result<Json> ParseValue(ValueType type, std::string_view text);

// A place in the state. `implicit`: made for a port whose channel the graph does not declare.
struct Channel {
  std::string name;
  ValueType type = ValueType::kObject;
  MergeRule merge = MergeRule::kReplace;
  bool implicit = false;
};

// The channel's next value. `old` is nullptr while the channel is absent. A JSON null in the answer
// means: still absent (rule `best`, and the candidate is not a correct one).
//   append, union: an array adds its items, any other value adds itself as one item
//   best: the higher `speedup` among candidates with a correct verdict; on a tie the earlier one
// Fails with class `validation` when the patch is not of the channel's type.
Result<Json> MergeChannel(const Channel& channel, const Json* old, const Json& patch);

}  // namespace kernel_evolve::graph
