#include "core/base/text.hpp"

#include <gtest/gtest.h>

#include "core/base/source.hpp"

namespace kernel_evolve {
namespace {

TEST(Text, ParsesDurations) {
  EXPECT_EQ(ParseDuration("30m"), 1800);
  EXPECT_EQ(ParseDuration("1h30m"), 5400);
  EXPECT_EQ(ParseDuration("250ms"), 0.25);
  EXPECT_EQ(ParseDuration("1.5s"), 1.5);
  for (const char* bad : {"", "30", "m", "-1s", "1s2m", "1m1m", "1 s", "1.s", "5y"}) {
    EXPECT_FALSE(ParseDuration(bad)) << bad;
  }
}

TEST(Text, ParsesCounts) {
  EXPECT_EQ(ParseCount("60"), 60);
  EXPECT_EQ(ParseCount("400k"), 400000);
  EXPECT_EQ(ParseCount("1.5M"), 1500000);
  for (const char* bad : {"", "-1", "1.5", "k", "4kk", "99999999999999999999"}) {
    EXPECT_FALSE(ParseCount(bad)) << bad;
  }
}

TEST(Text, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(Nearest("evalute", {"generate", "evaluate"}), "evaluate");
  EXPECT_EQ(Nearest("x", {"generate", "evaluate"}), std::nullopt);
  EXPECT_EQ(Nearest("banana", {"generate", "evaluate"}), std::nullopt);
}

TEST(Text, KnowsUtf8) {
  EXPECT_TRUE(IsUtf8Text("é漢😀"));
  EXPECT_EQ(CountCodePoints("é漢😀"), 3U);
  for (const char* bad : {"\x80", "\xC0\xAF", "\xE9", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_FALSE(IsUtf8Text(bad));
  }
  EXPECT_FALSE(IsUtf8Text(std::string_view("a\0b", 3)));
}

TEST(Text, HashesAsThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Diagnostic, CaretStandsUnderTheColumn) {
  const Diagnostic d{
      "KE1103", "g.yaml", {{2, 5}, 7}, "no node is called 'evalute'", "did you mean 'evaluate'?"};
  EXPECT_EQ(FormatDiagnostic(d, "a\nto: evalute\n"),
            "g.yaml:2:5: error[KE1103]: no node is called 'evalute'\n"
            "    2 | to: evalute\n"
            "      |     ^~~~~~~ did you mean 'evaluate'?\n");
}

}  // namespace
}  // namespace kernel_evolve
