// The agent's conversation, event by event: a scripted model and a scripted evaluator, no host.
#include "agent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>
#include <vector>

namespace kernel_nodes {
namespace {

using kernel_evolve::sdk::Config;
using kernel_evolve::sdk::Host;
using kernel_evolve::sdk::PluginError;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// json::array throughout: a list of one json is that json itself to some compilers.
json Pages() {
  return json::array({{{"path", "p/masks.md"}, {"text", "# How to mask\nuse other"}}});
}

json With(const json& more = json::object()) {
  json with = {{"model", "author"},
               {"prompt", {{"path", "p.md"}, {"text", "Task: {{task}} {{last_feedback}}"}}},
               {"hints", json::array()},
               {"start", ""},
               {"inspect", Pages()},
               {"prompt_tokens", 24000},
               {"context_tokens", 60000},
               {"max_turns", 30},
               {"target_speedup", 0}};
  with.update(more);
  return with;
}

json Call(const char* id, const char* tool, const json& arguments) {
  return {{"id", id}, {"name", tool}, {"arguments", arguments}};
}
json Validate(const std::string& code, const char* id = "t1") {
  return Call(id, "validate_model", {{"candidate_code", code}, {"summary", "s"}});
}
json Edit(const char* search, const char* replace, const char* id = "t1") {
  return Call(
      id, "edit_kernel",
      {{"edits", json::array({{{"search", search}, {"replace", replace}}})}, {"summary", "e"}});
}

json Verdict(double speedup, bool correct = true) {
  return {{"asked", "full"},
          {"stage", correct ? "done" : "correctness"},
          {"ok", correct},
          {"correct", correct},
          {"win", correct && speedup > 1},
          {"reason", correct ? "right" : "wrong values"},
          {"metrics", {{"speedup", correct ? json(speedup) : json()}}}};
}

// Plays both sides: replies of the model in order, verdicts by code.
class Play {
 public:
  explicit Play(json with = With(), json in = json::object(), int visit = 1)
      : node_(std::make_unique<AgentNode>(Config{with, json::object()}, Host(nullptr))),
        start_({{"type", "start"},
                {"node", "agent"},
                {"visit", visit},
                {"task", {{"source", "SRC"}}},
                {"in", std::move(in)},
                {"with", with}}) {}

  Play& Says(const std::vector<json>& calls, const std::string& text = "") {
    replies_.push_back(json::object({{"ok", {{"text", text}, {"tool_calls", json(calls)}}}}));
    return *this;
  }
  Play& Fails(const char* error_class, const char* message) {
    replies_.push_back({{"error", {{"class", error_class}, {"message", message}}}});
    return *this;
  }
  Play& Judged(const std::string& code, json outcome) {
    verdicts[code] = std::move(outcome);
    return *this;
  }

  // Runs to the end; throws what the node throws.
  json Run() {
    json event = start_;
    for (int step = 0; step < 200; ++step) {
      const json outcome = node_->Step(event).value();
      if (!outcome.contains("effects")) return outcome;
      const json effect = outcome.at("effects").at(0);
      json result;
      if (effect.at("kind") == "llm_complete") {
        requests.push_back(effect.at("request"));
        if (replies_.empty()) throw std::runtime_error("the script has no more replies");
        result = replies_.front();
        replies_.pop_front();
      } else {
        const std::string asked = effect.at("asked");
        judged.push_back(asked + " " + effect.at("candidate").at("id").get<std::string>());
        const std::string code = effect.at("candidate").at("code");
        const auto known = verdicts.find(code);
        if (known == verdicts.end()) throw std::runtime_error("no verdict for " + code);
        result = known->second;
        if (asked == "compile" && result.contains("ok") && result["ok"]["stage"] != "compile") {
          result = {{"ok", {{"ok", true}, {"stage", "done"}, {"reason", "compiles"}}}};
        }
      }
      event = {{"type", "results"}, {"results", {{effect.at("id"), result}}}};
    }
    throw std::runtime_error("the node never ends");
  }

  std::string Content(size_t request, size_t from_end) const {
    const json& messages = requests.at(request).at("messages");
    return messages.at(messages.size() - from_end).at("content");
  }

  std::vector<json> requests;
  std::vector<std::string> judged;
  std::map<std::string, json> verdicts;

 private:
  std::unique_ptr<AgentNode> node_;
  json start_;
  std::deque<json> replies_;
};

json Ok(const json& verdict) { return {{"ok", verdict}}; }

TEST(Agent, ValidatesEditsAndStopsWithTheBestWhateverItSaysLast) {
  Play play;
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Says({Edit("A", "B")}).Judged("B", Ok(Verdict(1.5)));
  play.Says(json::array(), "B is the best kernel I can write.");
  const json done = play.Run().at("done");
  EXPECT_EQ(done.at("out").at("best").at("code"), "A");
  EXPECT_EQ(done.at("out").at("best").at("id"), "c1");
  EXPECT_EQ(done.at("out").at("attempts").size(), 2U);
  EXPECT_EQ(done.at("out").at("attempts")[1].at("parent"), "c1");
  EXPECT_EQ(done.at("out").at("said"), "B is the best kernel I can write.");
  EXPECT_EQ(
      done.at("result"),
      json({{"ok", true}, {"turns", 3}, {"attempts", 2}, {"win", true}, {"ended", "stopped"}}));
  EXPECT_THAT(play.judged,
              ::testing::ElementsAre("compile c1", "full c1", "compile c2", "full c2"));
}

TEST(Agent, AsksWithItsToolsAndNeverForcesOne) {
  Play play;
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0))).Says(json::array());
  play.Run();
  const json& first = play.requests.at(0);
  EXPECT_EQ(first["tool_choice"], "auto");
  EXPECT_EQ(first["messages"][0]["content"], "Task: SRC ");
  EXPECT_EQ(first["context"]["purpose"], "agent");
  ASSERT_EQ(first["tools"].size(), 3U);
  EXPECT_EQ(first["tools"][0]["name"], "validate_model");
  EXPECT_EQ(first["tools"][0]["parameters"]["required"], json::array({"candidate_code"}));
  EXPECT_EQ(play.requests.at(1)["context"]["attempts"].size(), 1U);
}

TEST(Agent, ToldWhatTheVerdictSaysAndWhereItStands) {
  Play play;
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Says({Validate("W")}).Judged("W", Ok(Verdict(0, false)));
  play.Says(json::array());
  play.Run();
  EXPECT_THAT(play.Content(1, 1), HasSubstr("c1: Correct and faster, 2 times as fast as eager"));
  EXPECT_THAT(play.Content(1, 1), HasSubstr("It is the best so far."));
  EXPECT_THAT(play.Content(1, 1), HasSubstr("[turn 1 of 30]"));
  EXPECT_THAT(play.Content(2, 1), HasSubstr("c2: Failed at the stage correctness: wrong values"));
  EXPECT_THAT(play.Content(2, 1), HasSubstr("The best so far is c1, 2 times as fast as eager."));
}

TEST(Agent, WhatDoesNotCompileIsNotJudgedFurther) {
  Play play;
  play.Says({Validate("X")});
  play.Judged("X", Ok({{"ok", false}, {"stage", "compile"}, {"reason", "line 3: no tl.tanh"}}));
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Says(json::array());
  const json done = play.Run().at("done");
  EXPECT_THAT(play.judged, ::testing::ElementsAre("compile c1", "compile c2", "full c2"));
  EXPECT_THAT(play.Content(1, 1), HasSubstr("line 3: no tl.tanh"));
  EXPECT_EQ(done.at("out").at("attempts")[0].at("stage"), "compile");
}

TEST(Agent, EveryCallOfAReplyIsAnsweredInItsOrder) {
  Play play;
  play.Says({Call("t1", "inspect", {{"topic", "masks"}}), Validate("A", "t2"), Edit("A", "B", "t3"),
             Edit("nowhere", "x", "t4"), Call("t5", "rm", json::object())});
  play.Judged("A", Ok(Verdict(2.0))).Judged("B", Ok(Verdict(3.0)));
  play.Says(json::array());
  EXPECT_EQ(play.Run().at("done").at("out").at("best").at("code"), "B");
  const json& messages = play.requests.at(1).at("messages");
  ASSERT_EQ(messages.size(), 7U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(messages[2 + i]["role"], "tool");
    EXPECT_EQ(messages[2 + i]["tool_call_id"], "t" + std::to_string(i + 1));
  }
  EXPECT_EQ(messages[2]["content"], "# How to mask\nuse other");
  EXPECT_THAT(messages[4]["content"].get<std::string>(), HasSubstr("c2: "));
  EXPECT_THAT(messages[5]["content"].get<std::string>(), HasSubstr("occurs nowhere"));
  EXPECT_THAT(messages[6]["content"].get<std::string>(), HasSubstr("no tool called 'rm'"));
}

TEST(Agent, EditsApplyToTheLastCandidateOrToTheOneNamed) {
  Play play;
  play.Says({Validate("good A")}).Judged("good A", Ok(Verdict(2.0)));
  play.Says({Validate("bad B")}).Judged("bad B", Ok(Verdict(0, false)));
  play.Says({Edit("bad", "mended")}).Judged("mended B", Ok(Verdict(1.0)));
  json edit = Edit("good", "better");
  edit["arguments"]["candidate"] = "c1";
  play.Says({edit}).Judged("better A", Ok(Verdict(3.0)));
  edit["arguments"]["candidate"] = "c9";
  play.Says({edit});
  play.Says(json::array());
  const json done = play.Run().at("done");
  EXPECT_EQ(done.at("out").at("best").at("code"), "better A");
  EXPECT_EQ(done.at("out").at("best").at("parent"), "c1");
  EXPECT_THAT(play.Content(5, 1), HasSubstr("there is no candidate 'c9'"));
}

TEST(Agent, TheSameSourceIsNotJudgedTwice) {
  Play play;
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Says({Validate("A")}).Says(json::array());
  EXPECT_EQ(play.Run().at("done").at("out").at("attempts").size(), 1U);
  EXPECT_THAT(play.Content(2, 1), HasSubstr("the same source as c1"));
  EXPECT_THAT(play.Content(2, 1), HasSubstr("Correct and faster"));
}

TEST(Agent, SilenceBeforeAnythingIsVerifiedIsRemindedTwice) {
  Play play;
  play.Says(json::array(), "I would fuse them.").Says(json::array(), "Like so.");
  play.Says(json::array(), "Nothing can be done here.");
  const json done = play.Run().at("done");
  EXPECT_THAT(play.Content(1, 1), HasSubstr("Call validate_model"));
  EXPECT_EQ(done.at("result").at("ok"), false);
  EXPECT_EQ(done.at("result").at("turns"), 3);
  EXPECT_EQ(done.at("out").at("said"), "Nothing can be done here.");
  EXPECT_FALSE(done.at("out").contains("best"));
}

TEST(Agent, EndsAtItsLastTurnAndStillJudgesWhatItBrought) {
  Play play(With({{"max_turns", 2}}));
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Says({Validate("B")}).Judged("B", Ok(Verdict(3.0)));
  const json done = play.Run().at("done");
  EXPECT_EQ(done.at("out").at("best").at("code"), "B");
  EXPECT_EQ(done.at("result").at("ended"), "turns");
}

TEST(Agent, EndsWhenTheTargetIsMet) {
  Play play(With({{"target_speedup", 2.5}}));
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Says({Validate("B"), Validate("C", "t2")}).Judged("B", Ok(Verdict(2.5)));
  const json done = play.Run().at("done");
  EXPECT_EQ(done.at("result").at("ended"), "target");
  EXPECT_EQ(done.at("out").at("best").at("code"), "B");
}

TEST(Agent, AnExhaustedBudgetEndsItWithTheBestSoFar) {
  Play model;
  model.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0))).Fails("budget", "no tokens left");
  json done = model.Run().at("done");
  EXPECT_EQ(done.at("result").at("ended"), "budget");
  EXPECT_EQ(done.at("out").at("best").at("code"), "A");

  Play evaluator;
  evaluator.Says({Validate("A")});
  evaluator.Judged("A", {{"error", {{"class", "budget"}, {"message", "no evaluations left"}}}});
  done = evaluator.Run().at("done");
  EXPECT_EQ(done.at("result").at("ended"), "budget");
  EXPECT_EQ(done.at("result").at("ok"), false);
}

TEST(Agent, AnAnswerThatTheHostRefusedIsAskedForAgain) {
  Play play;
  play.Fails("invalid_output", "the argument 'candidate_code' is missing");
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0)));
  play.Fails("invalid_output", "cut off").Fails("invalid_output", "cut off");
  play.Fails("invalid_output", "cut off");
  const json done = play.Run().at("done");
  EXPECT_THAT(play.Content(1, 1), HasSubstr("the argument 'candidate_code' is missing"));
  EXPECT_EQ(done.at("result").at("ended"), "useless");
  EXPECT_EQ(done.at("out").at("best").at("code"), "A");

  Play never;
  for (int i = 0; i < 3; ++i) never.Fails("invalid_output", "no JSON");
  const json failed = never.Run();
  EXPECT_EQ(failed.at("error").at("class"), "invalid_output");
  EXPECT_THAT(failed.at("error").at("message").get<std::string>(), HasSubstr("no JSON"));
}

TEST(Agent, OtherFailuresOfTheModelKeepTheirClass) {
  Play play;
  play.Fails("auth", "the key is wrong");
  try {
    play.Run();
    FAIL() << "the error was swallowed";
  } catch (const PluginError& error) {
    EXPECT_EQ(error.error_class(), "auth");
  }
}

TEST(Agent, AnEvaluationThatDoesNotEndIsToldThreeInARowAreTooMany) {
  const json hangs = {{"error", {{"class", "timeout"}, {"message", "it took 60 s"}}}};
  Play play;
  play.Says({Validate("H")}).Judged("H", hangs);
  play.Says({Validate("A")}).Judged("A", Ok(Verdict(2.0))).Says(json::array());
  EXPECT_EQ(play.Run().at("done").at("out").at("best").at("code"), "A");
  EXPECT_THAT(play.Content(1, 1), HasSubstr("it took 60 s"));

  Play stuck;
  for (const char* code : {"H", "I", "J"}) stuck.Says({Validate(code)}).Judged(code, hangs);
  EXPECT_THROW(stuck.Run(), PluginError);
}

TEST(Agent, TheUsersOwnKernelIsJudgedBeforeAnyoneIsAsked) {
  Play play(With({{"start", "OWN"}}));
  play.Judged("OWN", Ok(Verdict(1.2))).Says(json::array());
  const json done = play.Run().at("done");
  EXPECT_THAT(play.judged, ::testing::ElementsAre("compile c1", "full c1"));
  EXPECT_THAT(play.Content(0, 1), HasSubstr("1.2 times as fast"));
  EXPECT_EQ(done.at("out").at("best").at("origin"), "user");
  EXPECT_EQ(done.at("result").at("turns"), 1);
}

TEST(Agent, GoesOnFromTheBestCandidateOfTheGraph) {
  const json best = {{"id", "c7"}, {"code", "old"}, {"speedup", 2.0}, {"verdict", Verdict(2.0)}};
  const json in = {{"best", best}, {"attempts", {{{"id", "c7"}, {"speedup", 2.0}}}}};
  Play play(With(), in, 2);
  play.Says({Edit("old", "new")}).Judged("new", Ok(Verdict(4.0))).Says(json::array());
  const json done = play.Run().at("done");
  EXPECT_EQ(done.at("out").at("best").at("parent"), "c7");
  EXPECT_EQ(done.at("out").at("best").at("id"), "agent-2-1") << "ids stay apart over visits";
  EXPECT_EQ(done.at("out").at("attempts").size(), 1U) << "only its own: the channel has the others";
  EXPECT_EQ(play.requests.at(1)["context"]["attempts"].size(), 2U);
}

// A long conversation over kernels of some 2 KB each.
std::string LongKernel(int number) {
  std::string code = "# kernel " + std::to_string(number) + "\n";
  for (int i = 0; i < 60; ++i) code += "x = tl.load(p + " + std::to_string(number + i) + ")\n";
  return code;
}

Play LongPlay() {
  Play play(With({{"context_tokens", 2500}}));
  for (int i = 1; i <= 12; ++i) {
    // The third is the best.
    play.Says({Validate(LongKernel(i))});
    play.Judged(LongKernel(i), Ok(Verdict(i == 3 ? 9.0 : 1.0 + 0.01 * i)));
  }
  play.Says(json::array());
  return play;
}

TEST(AgentContext, OldTurnsAreShortenedButNotTheTaskTheBestAndTheLast) {
  Play play = LongPlay();
  EXPECT_EQ(play.Run().at("done").at("out").at("best").at("id"), "c3");
  const std::string last = play.requests.back().at("messages").dump();
  EXPECT_LE(last.size(), 10000U + 6000U) << "the budget, and what is never shortened";
  EXPECT_THAT(last, Not(HasSubstr("# kernel 1\\n")));
  EXPECT_THAT(last, HasSubstr("lines, left out to save room"));
  const std::string first = play.requests.back().at("messages")[0].at("content");
  EXPECT_THAT(first, HasSubstr("Task: SRC"));
  EXPECT_THAT(first, HasSubstr(LongKernel(3))) << "the best candidate";
  EXPECT_THAT(last, HasSubstr("# kernel 12\\n"));
  EXPECT_THAT(play.Content(12, 1), HasSubstr("c12: Correct and faster"));
  for (const json& request : play.requests) {
    std::set<std::string> open;
    for (const json& message : request.at("messages")) {
      for (const json& call : message.value("tool_calls", json::array())) open.insert(call["id"]);
      if (message["role"] == "tool") open.erase(message["tool_call_id"]);
    }
    EXPECT_TRUE(open.empty()) << "a call lost its answer";
  }
}

TEST(AgentContext, NotEveryTurnChangesWhatWasSentBefore) {
  Play play = LongPlay();
  play.Run();
  int changed = 0;
  for (size_t i = 2; i < play.requests.size(); ++i) {
    const json& before = play.requests[i - 1].at("messages");
    const json& now = play.requests[i].at("messages");
    changed += now.at(0) == before.at(0) && now.at(1) == before.at(1) ? 0 : 1;
  }
  EXPECT_LE(changed, 6);
  EXPECT_GE(changed, 1);
}

TEST(AgentContext, TheSameEventsGiveTheSameBytes) {
  Play one = LongPlay();
  Play two = LongPlay();
  one.Run();
  two.Run();
  EXPECT_EQ(json(one.requests).dump(), json(two.requests).dump());
}

}  // namespace
}  // namespace kernel_nodes
