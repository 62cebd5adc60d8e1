// The conversation of the authoring nodes, step by step: events in, outcomes out.
#include <gtest/gtest.h>

#include "authoring_nodes.hpp"
#include "judging_nodes.hpp"

namespace kernel_nodes {
namespace {

using kernel_evolve::sdk::Config;
using kernel_evolve::sdk::Host;
using nlohmann::json;

Config AuthorConfig() {
  return {{{"model", "author"}, {"prompt", {{"path", "p.md"}, {"text", "Task: {{task}}"}}}},
          json::object()};
}

json Start(const json& in = json::object(), int visit = 1, const std::string& own = "") {
  return {{"type", "start"},
          {"node", "generate"},
          {"visit", visit},
          {"task", {{"source", "SRC"}}},
          {"in", in},
          {"with",
           {{"model", "author"},
            {"prompt", AuthorConfig().params["prompt"]},
            {"hints", json::array()},
            {"start", own}}}};
}

json Reply(const std::string& tool, const json& arguments) {
  const json call = {{"id", "t1"}, {"name", tool}, {"arguments", arguments}};
  return {{"type", "results"},
          {"results", {{"author", {{"ok", {{"text", ""}, {"tool_calls", {call}}}}}}}}};
}

json TextReply(const std::string& text) {
  return {{"type", "results"},
          {"results", {{"author", {{"ok", {{"text", text}, {"tool_calls", json::array()}}}}}}}};
}

json RequestOf(const kernel_evolve::sdk::Outcome& outcome) {
  return outcome.value().at("effects").at(0).at("request");
}

TEST(Generate, AsksWithToolsAndTakesTheSubmittedKernel) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  const json request = RequestOf(node.Step(Start()));
  EXPECT_EQ(request["messages"][0]["content"], "Task: SRC");
  ASSERT_EQ(request["tools"].size(), 1U);  // nothing to edit yet
  EXPECT_EQ(request["tools"][0]["name"], "submit_kernel");
  EXPECT_EQ(request["context"]["purpose"], "generate");

  const json done = node.Step(Reply("submit_kernel", {{"code", "X"}, {"summary", "s"}})).value();
  const json candidate = done.at("done").at("out").at("candidate");
  EXPECT_EQ(candidate["id"], "c1");
  EXPECT_EQ(candidate["code"], "X");
  EXPECT_EQ(candidate["origin"], "author");
  EXPECT_TRUE(candidate["parent"].is_null());
}

TEST(Generate, EditsApplyToTheBestCandidate) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  const json in = {{"best", {{"id", "c1"}, {"code", "old text"}}},
                   {"candidate", {{"id", "c2"}, {"code", "worse"}}}};
  EXPECT_EQ(RequestOf(node.Step(Start(in, 3)))["tools"].size(), 2U);
  const json edits = json::array({{{"search", "old"}, {"replace", "new"}}});
  const json done = node.Step(Reply("edit_kernel", {{"edits", edits}, {"summary", "s"}})).value();
  const json candidate = done.at("done").at("out").at("candidate");
  EXPECT_EQ(candidate["code"], "new text");
  EXPECT_EQ(candidate["parent"], "c1");
  EXPECT_EQ(candidate["id"], "c3");
}

TEST(Generate, ABadEditGoesBackToTheModelWithItsReason) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start({{"best", {{"id", "c1"}, {"code", "aa"}}}}, 2));
  const json edits = json::array({{{"search", "a"}, {"replace", "b"}}});
  const json request =
      RequestOf(node.Step(Reply("edit_kernel", {{"edits", edits}, {"summary", "s"}})));
  ASSERT_EQ(request["messages"].size(), 3U);
  EXPECT_EQ(request["messages"][2]["role"], "tool");
  EXPECT_EQ(request["messages"][2]["tool_call_id"], "t1");
  EXPECT_NE(request["messages"][2]["content"].get<std::string>().find("2 times"),
            std::string::npos);
}

TEST(Generate, GivesUpAfterThreeUselessAnswers) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start());
  EXPECT_TRUE(
      node.Step(TextReply("```python\nclass ModelNew: ...\n```")).value().contains("effects"));
  EXPECT_TRUE(node.Step(Reply("no_such_tool", json::object())).value().contains("effects"));
  const json last = node.Step(Reply("submit_kernel", {{"code", ""}})).value();
  EXPECT_EQ(last.at("error").at("class"), "invalid_output");
}

TEST(Generate, AnAnswerThatTheHostRefusedIsAskedForAgain) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start());
  const json refused = {{"type", "results"},
                        {"results",
                         {{"author",
                           {{"error",
                             {{"class", "invalid_output"},
                              {"message", "the argument 'code' of the tool is missing"}}}}}}}};
  const json request = RequestOf(node.Step(refused));
  EXPECT_EQ(request["messages"].back()["role"], "user");
  EXPECT_NE(request["messages"].back()["content"].get<std::string>().find("'code'"),
            std::string::npos);
  EXPECT_TRUE(node.Step(refused).value().contains("effects"));
  const json last = node.Step(refused).value();
  EXPECT_EQ(last.at("error").at("class"), "invalid_output");
  EXPECT_NE(last.at("error").at("message").get<std::string>().find("'code'"), std::string::npos);
}

// Pages to look up, as the graph loader hands them over.
json WithPages(json start) {
  start["with"]["inspect"] = {{{"path", "p/masks.md"}, {"text", "# How to mask\nuse other"}}};
  return start;
}

TEST(Generate, LooksThingsUpWithoutUsingUpItsChances) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  const json tools = RequestOf(node.Step(WithPages(Start())))["tools"];
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[1]["name"], "inspect");
  const json topic = tools[1]["parameters"]["properties"]["topic"];
  EXPECT_EQ(topic["enum"], json::array({"masks"}));
  EXPECT_NE(topic["description"].get<std::string>().find("masks: How to mask"), std::string::npos);

  for (int round = 0; round < 4; ++round) {
    const json request = RequestOf(node.Step(Reply("inspect", {{"topic", "masks"}})));
    EXPECT_EQ(request["messages"].back()["content"], "# How to mask\nuse other");
  }
  const json enough = RequestOf(node.Step(Reply("inspect", {{"topic", "masks"}})));
  EXPECT_NE(enough["messages"].back()["content"].get<std::string>().find("enough"),
            std::string::npos);
  EXPECT_TRUE(node.Step(Reply("submit_kernel", {{"code", "X"}, {"summary", "s"}}))
                  .value()
                  .contains("done"));
}

TEST(Generate, WhatAServiceWantsToSeeAgainIsEchoed) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start());
  json reply = Reply("submit_kernel", {{"code", ""}});
  reply["results"]["author"]["ok"]["reasoning"] = "hm";
  reply["results"]["author"]["ok"]["raw"] = {{"signature", "x"}};
  const json said = RequestOf(node.Step(reply))["messages"][1];
  EXPECT_EQ(said["reasoning"], "hm");
  EXPECT_EQ(said["raw"], json({{"signature", "x"}}));
}

TEST(Generate, TheUsersOwnKernelComesFirstAndCostsNoCall) {
  GenerateNode first(AuthorConfig(), Host(nullptr));
  const json done = first.Step(Start(json::object(), 1, "OWN")).value();
  EXPECT_EQ(done.at("done").at("out").at("candidate").at("code"), "OWN");
  EXPECT_EQ(done.at("done").at("out").at("candidate").at("origin"), "user");
  GenerateNode second(AuthorConfig(), Host(nullptr));
  EXPECT_TRUE(second.Step(Start(json::object(), 2, "OWN")).value().contains("effects"));
}

TEST(Generate, AFailedCallKeepsItsClass) {
  GenerateNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start());
  const json event = {
      {"type", "results"},
      {"results", {{"author", {{"error", {{"class", "rate_limit"}, {"message", "slow down"}}}}}}}};
  try {
    node.Step(event);
    FAIL() << "the error was swallowed";
  } catch (const kernel_evolve::sdk::PluginError& error) {
    EXPECT_EQ(error.error_class(), "rate_limit");
  }
}

TEST(Analyze, SaysWhetherAnythingCanBeRewritten) {
  AnalyzeNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start());
  const json done =
      node.Step(Reply("submit_analysis", {{"analysis", "sort"}, {"rewritable", false}})).value();
  EXPECT_EQ(done.at("done").at("result").at("rewritable"), false);
  EXPECT_EQ(done.at("done").at("out").at("analysis").at("analysis"), "sort");
}

TEST(Reflect, AppendsOneLessonThatNamesTheCandidate) {
  ReflectNode node(AuthorConfig(), Host(nullptr));
  node.Step(Start({{"candidate", {{"id", "c2"}, {"code", "X"}}},
                   {"verdict", {{"ok", true}, {"stage", "done"}}}}));
  const json done =
      node.Step(Reply("record_lesson", {{"lesson", "wide tiles help."}, {"next", "warps"}}))
          .value();
  EXPECT_EQ(done.at("done").at("out").at("lessons"),
            json::array({"c2: wide tiles help. Next: warps"}));
}

TEST(Compile, AFailureIsAVerdictWithItsLineOfHistory) {
  CompileNode node({}, Host(nullptr));
  const json start = {{"type", "start"}, {"in", {{"candidate", {{"id", "c1"}, {"code", "X"}}}}}};
  const json effect = node.Step(start).value().at("effects").at(0);
  EXPECT_EQ(effect["kind"], "evaluate");
  EXPECT_EQ(effect["asked"], "compile");
  const json verdict = {{"ok", false}, {"stage", "parse"}, {"reason", "no"}};
  const json done =
      node.Step({{"type", "results"}, {"results", {{"verdict", {{"ok", verdict}}}}}}).value();
  EXPECT_EQ(done.at("done").at("result").at("ok"), false);
  EXPECT_EQ(done.at("done").at("out").at("attempts").at(0).at("stage"), "parse");
}

TEST(Evaluate, OnlyACorrectCandidateIsOfferedAsBest) {
  for (const bool correct : {true, false}) {
    EvaluateNode node({}, Host(nullptr));
    node.Step({{"type", "start"}, {"in", {{"candidate", {{"id", "c1"}, {"code", "X"}}}}}});
    const json verdict = {{"ok", correct},
                          {"correct", correct},
                          {"win", correct},
                          {"metrics", {{"speedup", correct ? json(2.0) : json()}}}};
    const json out = node.Step({{"type", "results"}, {"results", {{"verdict", {{"ok", verdict}}}}}})
                         .value()
                         .at("done")
                         .at("out");
    EXPECT_EQ(out.contains("best"), correct);
    if (correct) {
      EXPECT_EQ(out.at("best").at("speedup"), 2.0);
    }
  }
}

}  // namespace
}  // namespace kernel_nodes
