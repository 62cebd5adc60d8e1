#include "shorten.hpp"

#include <gtest/gtest.h>

namespace kernel_nodes {
namespace {

TEST(Shorten, WhatFitsStaysAsItIs) {
  for (const auto shorten : {&ShortenEnd, &ShortenMiddle, &ShortenList}) {
    EXPECT_EQ(shorten("- a\n- b", 7), "- a\n- b");
    EXPECT_EQ(shorten("", 0), "");
  }
}

TEST(Shorten, TheEndIsCutAtALineAndCounted) {
  const std::string text = std::string(60, 'a') + "\n" + std::string(100, 'b');
  EXPECT_EQ(ShortenEnd(text, 120), std::string(60, 'a') + "\n[... 101 bytes left out]");
}

TEST(Shorten, NoCharacterIsSplit) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xC3\xA9";  // é
  for (size_t bytes = 50; bytes < 60; ++bytes) {
    const std::string cut = ShortenEnd(text, bytes);
    const size_t kept = cut.find('\n');
    EXPECT_EQ(kept % 2, 0U) << bytes;
  }
}

TEST(Shorten, CodeKeepsItsFirstAndLastLines) {
  std::string code;
  for (int i = 1; i <= 50; ++i)
    code += (i > 1 ? "\n" : "") + std::string("line ") + std::to_string(i);
  EXPECT_EQ(ShortenMiddle(code, 80),
            "line 1\nline 2\n# [... 46 lines left out here ...]\nline 49\nline 50");
}

TEST(Shorten, AListKeepsItsNewestItems) {
  const std::string list = "- one\n- two\n  goes on\n- three " + std::string(30, 'x') + "\n- four";
  EXPECT_EQ(ShortenList(list, 60), "- [... 3 older ones left out]\n- four");
  EXPECT_EQ(
      ShortenList("- " + std::string(200, 'x') + "\n- " + std::string(200, 'y'), 120),
      "- [... 1 older ones left out]\n- " + std::string(22, 'y') + "\n[... 178 bytes left out]");
}

TEST(Shorten, ResultsFitForEverySizeThatLeavesRoomForTheMark) {
  const std::string text =
      "- a b c\n- d\n- " + std::string(500, 'e') + "\n- f\n- " + std::string(40, 'g');
  for (size_t bytes = 100; bytes < text.size(); ++bytes) {
    for (const auto shorten : {&ShortenEnd, &ShortenMiddle, &ShortenList}) {
      EXPECT_LE(shorten(text, bytes).size(), bytes);
    }
  }
}

}  // namespace
}  // namespace kernel_nodes
