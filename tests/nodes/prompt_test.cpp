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
  EXPECT_EQ(data.at("last_feedback"), "{\"class\":\"\",\"ok\":false,\"stage\":\"compile\"}\nno\nf");
}

}  // namespace
}  // namespace kernel_nodes
