#include "core/base/json.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace kernel_evolve {
namespace {

TEST(Json, EqualValuesPrintAsEqualBytes) {
  EXPECT_EQ(Json::Parse(R"({"b": 1, "a": [true, null, 1.5, "é"]})")->Dump(),
            R"({"a":[true,null,1.5,"é"],"b":1})");
}

TEST(Json, KeepsIntegersExactAndComparesThemWithNumbers) {
  const Json big = *Json::Parse("9007199254740993");
  ASSERT_TRUE(big.is_integer());
  EXPECT_EQ(big.integer(), 9007199254740993);
  EXPECT_EQ(*Json::Parse("1"), *Json::Parse("1.0"));
  EXPECT_TRUE(Json::Parse("18446744073709551615")->is_double());
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "{\"a\":1,}", "[1 2]", "NaN", "\"\xff\"", "{} {}"}) {
    EXPECT_FALSE(Json::Parse(text).ok()) << text;
  }
  EXPECT_NE(Json::Parse("{\n oops}").error().message.find("line 2"), std::string::npos);
}

TEST(Json, RefusesDeepNesting) {
  EXPECT_TRUE(Json::Parse(std::string(256, '[') + std::string(256, ']')).ok());
  EXPECT_FALSE(Json::Parse(std::string(257, '[') + std::string(257, ']')).ok());
}

TEST(Json, ForgivingReadsFallBack) {
  const Json value = Json::Obj({{"n", 3}, {"s", "x"}});
  EXPECT_EQ(value.Integer("n"), 3);
  EXPECT_EQ(value.Number("n"), 3.0);
  EXPECT_EQ(value.Text("n", "none"), "none");
  EXPECT_TRUE(value["missing"]["deeper"].is_null());
}

TEST(Json, NotANumberPrintsAsNull) { EXPECT_EQ(Json(std::nan("")).Dump(), "null"); }

}  // namespace
}  // namespace kernel_evolve
