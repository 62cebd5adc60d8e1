// Types of values and the merge rules of channels.
#include "core/graph/state.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kernel_evolve::graph {
namespace {

Json J(const std::string& text) { return Json::Parse(text).value(); }

// What the channel holds after each patch in turn; "absent", or the error.
std::string Merge(ValueType type, MergeRule rule, const std::vector<std::string>& patches) {
  const Channel channel{"c", type, rule, false};
  Json held;
  bool present = false;
  for (const std::string& patch : patches) {
    Result<Json> next = MergeChannel(channel, present ? &held : nullptr, J(patch));
    if (!next.ok()) return "error: " + next.error().message;
    held = *next;
    present = !held.is_null();
  }
  return present ? held.Dump() : "absent";
}

TEST(Merge, ReplaceKeepsTheLast) {
  EXPECT_EQ(Merge(ValueType::kInteger, MergeRule::kReplace, {"1", "2"}), "2");
}

TEST(Merge, AppendKeepsEverythingInOrder) {
  EXPECT_EQ(Merge(ValueType::kArray, MergeRule::kAppend, {"[1, 2]", "[]", "[2]"}), "[1,2,2]");
  EXPECT_EQ(Merge(ValueType::kArray, MergeRule::kAppend, {"\"a\"", "{\"b\": 1}"}),
            R"(["a",{"b":1}])");
  EXPECT_EQ(Merge(ValueType::kArray, MergeRule::kAppend, {"[]"}), "[]");
}

TEST(Merge, UnionKeepsEachOnce) {
  EXPECT_EQ(Merge(ValueType::kArray, MergeRule::kUnion, {"[1, 2, 1]", "[2, 3, 1.0]"}), "[1,2,3]");
}

TEST(Merge, SumAndMax) {
  EXPECT_EQ(Merge(ValueType::kInteger, MergeRule::kSum, {"1", "2"}), "3");
  EXPECT_EQ(Merge(ValueType::kNumber, MergeRule::kSum, {"1", "2.5"}), "3.5");
  EXPECT_EQ(Merge(ValueType::kInteger, MergeRule::kSum, {"9223372036854775807", "1"}),
            "error: channel 'c': the sum is out of range");
  EXPECT_EQ(Merge(ValueType::kNumber, MergeRule::kMax, {"2", "3.5", "1"}), "3.5");
}

TEST(Merge, ObjectsMemberByMember) {
  EXPECT_EQ(Merge(ValueType::kObject, MergeRule::kMergeObject,
                  {R"({"a": 1, "b": {"x": 1}})", R"({"b": {"y": 2}, "c": null})"}),
            R"({"a":1,"b":{"y":2},"c":null})");
}

std::string Candidate(const std::string& id, const std::string& rest) {
  return R"({"code": "", "id": ")" + id + "\"" + (rest.empty() ? "" : ", " + rest) + "}";
}

std::string BestOf(const std::vector<std::string>& candidates) {
  const std::string held = Merge(ValueType::kCandidate, MergeRule::kBest, candidates);
  return held == "absent" || held.rfind("error", 0) == 0 ? held : J(held).Text("id");
}

TEST(Merge, BestKeepsTheFastestCorrectOneAndTheEarlierOnATie) {
  const std::string slow = Candidate("slow", R"("speedup": 1.2, "verdict": {"correct": true})");
  const std::string fast = Candidate("fast", R"("speedup": 3, "verdict": {"correct": true})");
  const std::string tied = Candidate("tied", R"("speedup": 3.0, "verdict": {"correct": true})");
  const std::string wrong = Candidate("wrong", R"("speedup": 9, "verdict": {"correct": false})");
  const std::string unknown = Candidate("unknown", R"("speedup": 9, "verdict": {"correct": null})");
  const std::string unjudged = Candidate("unjudged", R"("speedup": 9)");
  const std::string untimed =
      Candidate("untimed", R"("verdict": {"correct": true, "metrics": {"speedup": null}})");
  const std::string nested =
      Candidate("nested", R"("verdict": {"correct": true, "metrics": {"speedup": 2}})");
  EXPECT_EQ(BestOf({slow, fast}), "fast");
  EXPECT_EQ(BestOf({fast, slow}), "fast");
  EXPECT_EQ(BestOf({fast, tied}), "fast");
  EXPECT_EQ(BestOf({slow, wrong, unknown, unjudged}), "slow");
  EXPECT_EQ(BestOf({wrong, unjudged}), "absent");
  EXPECT_EQ(BestOf({wrong, slow}), "slow");
  EXPECT_EQ(BestOf({untimed, slow}), "slow");
  EXPECT_EQ(BestOf({slow, untimed}), "slow");
  EXPECT_EQ(BestOf({untimed}), "untimed");
  EXPECT_EQ(BestOf({slow, nested}), "nested");
}

TEST(Merge, RefusesAPatchOfAnotherType) {
  EXPECT_EQ(Merge(ValueType::kInteger, MergeRule::kReplace, {"\"1\""}),
            "error: channel 'c': a value of type string is not of type integer, which is a whole "
            "number such as 8");
  EXPECT_EQ(Merge(ValueType::kArray, MergeRule::kAppend, {"null"}),
            "error: channel 'c': nothing is not of type array, which is a list");
  EXPECT_EQ(Merge(ValueType::kCandidate, MergeRule::kBest, {"{}"}),
            "error: channel 'c': a candidate needs the text 'code'");
}

std::string Read(ValueType type, const std::string& text) {
  const Result<Json> value = ParseValue(type, text);
  return value.ok() ? value->Dump() : "error";
}

TEST(Types, ReadTextByTheDeclaredType) {
  EXPECT_EQ(Read(ValueType::kBool, "true"), "true");
  EXPECT_EQ(Read(ValueType::kBool, "yes"), "error");
  EXPECT_EQ(Read(ValueType::kInteger, "-8"), "-8");
  EXPECT_EQ(Read(ValueType::kInteger, "8.0"), "error");
  EXPECT_EQ(Read(ValueType::kInteger, "0x10"), "error");
  EXPECT_EQ(Read(ValueType::kNumber, "8"), "8.0");
  EXPECT_EQ(Read(ValueType::kNumber, "1e-3"), "0.001");
  EXPECT_EQ(Read(ValueType::kNumber, "nan"), "error");
  EXPECT_EQ(Read(ValueType::kString, "8"), "\"8\"");
  EXPECT_EQ(Read(ValueType::kDuration, "1h30m"), "5400.0");
  EXPECT_EQ(Read(ValueType::kDuration, "90"), "error");
  EXPECT_EQ(Read(ValueType::kCount, "400k"), "400000");
  EXPECT_EQ(Read(ValueType::kCount, "-1"), "error");
  EXPECT_EQ(Read(ValueType::kArray, "[1, 2]"), "[1,2]");
  EXPECT_EQ(Read(ValueType::kArray, "{}"), "error");
  EXPECT_EQ(Read(ValueType::kTask, R"({"source": "x"})"), R"({"source":"x"})");
}

TEST(Types, EveryNameReadsBack) {
  for (const std::string& name : ValueTypeNames()) {
    ASSERT_TRUE(ParseValueType(name).has_value()) << name;
    EXPECT_EQ(ValueTypeName(*ParseValueType(name)), name);
  }
  for (const std::string& name : MergeRuleNames()) {
    ASSERT_TRUE(ParseMergeRule(name).has_value()) << name;
    EXPECT_EQ(MergeRuleName(*ParseMergeRule(name)), name);
  }
}

TEST(Types, FlowOnlyWhereNothingIsLost) {
  EXPECT_TRUE(TypeFlows(ValueType::kInteger, ValueType::kNumber));
  EXPECT_FALSE(TypeFlows(ValueType::kNumber, ValueType::kInteger));
  EXPECT_TRUE(TypeFlows(ValueType::kCandidate, ValueType::kObject));
  EXPECT_FALSE(TypeFlows(ValueType::kObject, ValueType::kCandidate));
}

}  // namespace
}  // namespace kernel_evolve::graph
