// Secrets go out in headers and never come back.
#include "core/llm/secrets.hpp"

#include <gtest/gtest.h>

namespace kernel_evolve {
namespace {

using Map = std::map<std::string, std::string>;

const Secrets kTwo(Map{{"KEY", "sk-123456789"}, {"TOKEN", "sk-123456789-longer"}});

TEST(Secrets, FillsInEveryNameOfATemplate) {
  const auto expanded = kTwo.Expand("Bearer ${env:KEY}; t=${env:TOKEN}!");
  ASSERT_TRUE(expanded);
  EXPECT_EQ(*expanded, "Bearer sk-123456789; t=sk-123456789-longer!");
  EXPECT_EQ(*kTwo.Expand("${other} $KEY ${env:unclosed"), "${other} $KEY ${env:unclosed");
}

TEST(Secrets, ANameThatIsNotThereIsASentence) {
  const auto expanded = kTwo.Expand("${env:NOPE}");
  ASSERT_FALSE(expanded);
  EXPECT_EQ(expanded.error().error_class, ErrorClass::kAuth);
  EXPECT_NE(expanded.error().message.find("NOPE is not set"), std::string::npos);
}

TEST(Secrets, StruckOutWhereverTheyStand) {
  const Json value = Json::Obj(
      {{"a", Json::Arr({"x sk-123456789 y", 3})}, {"sk-123456789", "sk-123456789-longer"}});
  EXPECT_EQ(kTwo.Strike(value, 4).Dump(), R"({"[KEY]":"[TOKEN]","a":["x [KEY] y",3]})")
      << "the longer one is one secret, not the shorter one with a tail";
}

TEST(Secrets, AShortValueIsLeftInText) {
  const Secrets shorty(Map{{"PIN", "123"}});
  EXPECT_EQ(shorty.StrikeText("BLOCK = 1234", 8), "BLOCK = 1234");
  EXPECT_EQ(shorty.StrikeText("BLOCK = 1234", 3), "BLOCK = [PIN]4");
}

TEST(Secrets, AValueThatHoldsItsOwnNameEnds) {
  const Secrets odd(Map{{"AAAA", "AAAA"}});
  EXPECT_EQ(odd.StrikeText("AAAA AAAA", 4), "[AAAA] [AAAA]");
}

}  // namespace
}  // namespace kernel_evolve
