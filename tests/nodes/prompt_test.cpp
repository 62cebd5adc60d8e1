#include "prompt.hpp"

#include <gtest/gtest.h>

#include <kernel_evolve/plugin.hpp>

namespace kernel_nodes {
namespace {

using nlohmann::json;

json File(const char* text) { return {{"path", "p.md"}, {"text", text}}; }

TEST(Prompt, InsertsTextAsItIs) {
  EXPECT_EQ(RenderPrompt(File("<{{task}}>"), {{"task", "a < b && \"c\""}}), "<a < b && \"c\">");
}

TEST(Prompt, SectionsFollowWhatIsKnown) {
  const json file =
      File("{{#has_hints}}H {{hints}}{{/has_hints}}{{^has_best}}no best{{/has_best}}");
  EXPECT_EQ(RenderPrompt(file, {}), "no best");
  EXPECT_EQ(RenderPrompt(file, {{"hints", "x"}, {"best", "c1"}}), "H x");
}

TEST(Prompt, UnknownNameIsAnErrorThatListsTheKnownOnes) {
  try {
    CheckPrompt(File("{{tsak}}"));
    FAIL() << "accepted an unknown name";
  } catch (const kernel_evolve::sdk::PluginError& error) {
    EXPECT_EQ(error.error_class(), "validation");
    EXPECT_NE(std::string(error.what()).find("p.md names 'tsak'"), std::string::npos);
  }
}

TEST(Prompt, BrokenTemplateIsAnError) {
  EXPECT_THROW(CheckPrompt(File("{{#has_best}} open")), kernel_evolve::sdk::PluginError);
  EXPECT_THROW(CheckPrompt(File("{{task")), kernel_evolve::sdk::PluginError);
}

TEST(Prompt, CommentsAndEscapeFreeTagsAreFine) {
  CheckPrompt(File("{{! any words }}{{{task}}}{{&task}}{{ task }}"));
}

TEST(Prompt, DataComesFromTheStartEvent) {
  const json start = {
      {"task", {{"source", "class Model"}}},
      {"with", {{"hints", {"use bf16"}}}},
      {"in",
       {{"best", {{"id", "c1"}, {"code", "K"}, {"speedup", 2.5}}},
        {"candidate", {{"id", "c2"}, {"code", "L"}}},
        {"verdict", {{"stage", "compile"}, {"ok", false}, {"reason", "no"}, {"feedback", {"f"}}}},
        {"attempts",
         {{{"id", "c1"}, {"summary", "s"}, {"speedup", 2.5}},
          {{"id", "c2"},
           {"summary", "t"},
           {"speedup", nullptr},
           {"stage", "compile"},
           {"reason", "no"}}}}}}};
  const PromptData data = PromptDataOf(start);
  EXPECT_EQ(data.at("best_speedup"), "2.5");
  EXPECT_EQ(data.at("last_id"), "c2");
  EXPECT_EQ(data.at("attempts"), "- c1: s; speedup 2.5\n- c2: t; failed at compile: no");
  EXPECT_EQ(data.at("last_feedback"), "Failed at the stage compile: no\nf");
  EXPECT_EQ(data.at("parent_id"), "c1");
}

TEST(Prompt, ACandidateIsShownOnce) {
  const json start = {{"in",
                       {{"best", {{"id", "c1"}, {"code", "K\n"}}},
                        {"candidate", {{"id", "c1"}, {"code", "K\n"}}},
                        {"verdict", {{"ok", true}, {"reason", "fine"}}}}}};
  const PromptData data = PromptDataOf(start);
  EXPECT_EQ(data.at("best_code"), "K");
  EXPECT_EQ(data.count("last_code"), 0U);
  EXPECT_EQ(data.at("last_feedback"), "Passed: fine");
}

TEST(Prompt, TagsOnLinesOfTheirOwnLeaveNoEmptyLines) {
  const json file = File("A\n{{#has_hints}}\nH {{hints}}\n\n{{/has_hints}}\n{{! words }}\nB\n");
  EXPECT_EQ(RenderPrompt(file, {}), "A\nB\n");
  EXPECT_EQ(RenderPrompt(file, {{"hints", "x"}}), "A\nH x\n\nB\n");
}

// What a long run knows: every piece is larger than the budget allows all of them to be.
PromptData LongData() {
  PromptData data = {{"task", std::string(3000, 't')}, {"hints", "keep it short"}};
  for (int i = 1; i <= 300; ++i) {
    const std::string line = "- c" + std::to_string(i) + ": tried something; speedup 1.5";
    data["attempts"] += (i > 1 ? "\n" : "") + line;
    data["lessons"] += (i > 1 ? "\n" : "") + std::string("- lesson ") + std::to_string(i);
    data["best_code"] += (i > 1 ? "\n" : "") + std::string("best = ") + std::to_string(i);
    data["last_code"] += (i > 1 ? "\n" : "") + std::string("last = ") + std::to_string(i);
  }
  return data;
}

const char* const kAll =
    "{{task}}\n{{attempts}}\n{{lessons}}\n{{best_code}}\n{{last_code}}\n{{hints}}\nAnswer with "
    "the tool.";

TEST(PromptBudget, WhatFitsIsLeftAsItIs) {
  const std::string whole = RenderPrompt(File(kAll), LongData());
  EXPECT_EQ(FitPrompt(File(kAll), LongData(), whole.size()), whole);
}

TEST(PromptBudget, TheHistoryGoesFirstOldestFirstAndLeavesAMark) {
  const size_t whole = RenderPrompt(File(kAll), LongData()).size();
  const std::string cut = FitPrompt(File(kAll), LongData(), whole - 2000);
  EXPECT_LE(cut.size(), whole - 2000);
  EXPECT_EQ(cut.find("- c1: "), std::string::npos);
  EXPECT_NE(cut.find("- c300: "), std::string::npos);
  EXPECT_NE(cut.find(" older ones left out]"), std::string::npos);
  EXPECT_NE(cut.find("- lesson 1\n"), std::string::npos) << "the longer piece had enough to give";
  EXPECT_NE(cut.find(LongData()["last_code"]), std::string::npos);
  EXPECT_NE(cut.find(LongData()["best_code"]), std::string::npos);
}

TEST(PromptBudget, CodeIsCutInTheMiddleTheBestLast) {
  const std::string cut = FitPrompt(File(kAll), LongData(), 9500);
  EXPECT_LE(cut.size(), 9500U);
  EXPECT_NE(cut.find("last = 1\n"), std::string::npos);
  EXPECT_NE(cut.find("last = 300\n"), std::string::npos);
  EXPECT_EQ(cut.find("last = 150\n"), std::string::npos);
  EXPECT_NE(cut.find(" lines left out here ...]"), std::string::npos);
  EXPECT_NE(cut.find(LongData()["best_code"]), std::string::npos);
}

TEST(PromptBudget, TheTaskAndTheInstructionAreNeverCut) {
  const std::string cut = FitPrompt(File(kAll), LongData(), 100);
  EXPECT_NE(cut.find(std::string(3000, 't')), std::string::npos);
  EXPECT_NE(cut.find("Answer with the tool."), std::string::npos);
  EXPECT_NE(cut.find("keep it short"), std::string::npos) << "it is smaller than what all keep";
}

TEST(PromptBudget, TheSameStateGivesTheSameBytesAtEverySize) {
  size_t before = 0;
  for (size_t bytes = 4000; bytes < 24000; bytes += 499) {
    const std::string cut = FitPrompt(File(kAll), LongData(), bytes);
    EXPECT_EQ(cut, FitPrompt(File(kAll), LongData(), bytes));
    if (bytes > 6000) {
      EXPECT_LE(cut.size(), bytes);
    }
    EXPECT_GE(cut.size() + 400, before) << "a larger budget shows more, up to a line";
    before = cut.size();
  }
}

}  // namespace
}  // namespace kernel_nodes
