// The provider `mailbox` as the host drives it: events in, files out; answers in, responses out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kRequest[] = R"({
  "messages": [{"role": "user", "content": "Write a kernel."}],
  "tools": [{"name": "submit_kernel", "description": "Hands over a file.", "parameters": {
              "type": "object", "additionalProperties": false,
              "properties": {"code": {"type": "string", "description": "The source"},
                             "summary": {"type": "string"}},
              "required": ["code", "summary"]}},
            {"name": "inspect", "parameters": {"type": "object", "additionalProperties": false,
              "properties": {"topic": {"type": "string", "enum": ["masks"]}},
              "required": ["topic"]}}],
  "tool_choice": "required", "context": {"purpose": "generate"}})";
constexpr char kPolled[] = R"({"type": "results", "results": {"poll": {"ok": null}}})";

class Mailbox : public testing::Test {
 protected:
  Mailbox() : registry_(ScanOnly(Shipped("provider_mailbox"))) {}

  std::unique_ptr<Instance> Make(Json params = Json::Obj()) {
    if (!params.contains("folder")) params["folder"] = Box().string();
    auto made = registry_.Create(registry_.types().at(0),
                                 Json::Obj({{"params", params}, {"context", Json::Obj()}}), host_);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return *std::move(made);
  }
  fs::path Box() const { return dir_.path() / "mailbox"; }
  std::string Read(const std::string& name) const { return Slurp(Box() / name); }
  void Write(const std::string& name, const std::string& text) const {
    dir_.Write("mailbox/" + name, text);
  }
  std::vector<std::string> Files(const std::string& folder = "") const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(Box() / folder)) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Each returns the outcome; the request must be waiting after Ask and Poll.
  static Json Start(Instance& instance, const std::string& request = kRequest) {
    return StepOk(instance, R"({"type": "start", "call": 0, "request": )" + request + "}");
  }
  static Json Poll(Instance& instance) { return StepOk(instance, kPolled); }
  static bool Waits(const Json& outcome) {
    const Json& effects = outcome["effects"];
    return effects.size() == 1 && effects.array()[0].Text("kind") == "sleep";
  }
  static Json CallIn(const Json& outcome) {
    const Json& calls = outcome["done"]["response"]["tool_calls"];
    EXPECT_EQ(calls.size(), 1U) << outcome.Dump();
    return calls.size() == 1 ? calls.array()[0] : Json();
  }

  TempDir dir_;
  Registry registry_;
  std::shared_ptr<RecordingHost> host_ = std::make_shared<RecordingHost>();
};

TEST_F(Mailbox, PutsTheRequestForPeopleAndForProgramsAndWaits) {
  const auto instance = Make(Json::Obj({{"poll_s", 2.0}, {"model", "an expert"}}));
  const Json outcome = Start(*instance);
  ASSERT_TRUE(Waits(outcome)) << outcome.Dump();
  EXPECT_EQ(outcome["effects"].array()[0].Number("seconds"), 2.0);
  EXPECT_THAT(Files(), ElementsAre("0001.request.json", "0001.request.md"));

  const Json request = Parsed(Read("0001.request.json"));
  EXPECT_FALSE(request.contains("context"));
  EXPECT_EQ(request["messages"], Parsed(kRequest)["messages"]);
  const std::string letter = Read("0001.request.md");
  for (const char* part :
       {"# Request 0001 for an expert", "`0001.answer.py`", "`0001.answer.json`", "submit_kernel",
        "- `code` (string): The source", "### user\nWrite a kernel."}) {
    EXPECT_THAT(letter, HasSubstr(part));
  }
  EXPECT_THAT(host_->said.back(), HasSubstr("0001.request.md")) << "says what it waits for";
}

TEST_F(Mailbox, TakesTheShortFormAndMovesTheExchangeToDone) {
  const auto instance = Make();
  Start(*instance);
  EXPECT_TRUE(Waits(Poll(*instance)));
  Write("0001.answer.json",
        R"({"tool": "submit_kernel", "arguments": {"code": "X", "summary": "s"}})");
  const Json outcome = Poll(*instance);
  EXPECT_EQ(CallIn(outcome), Parsed(R"({"id": "call_1", "name": "submit_kernel",
                                        "arguments": {"code": "X", "summary": "s"}})"));
  EXPECT_EQ(outcome["done"]["response"].Text("finish_reason"), "tool_calls");
  EXPECT_TRUE(Files().empty());
  EXPECT_THAT(Files("done"),
              ElementsAre("0001.answer.json", "0001.request.json", "0001.request.md"));
}

TEST_F(Mailbox, TakesACanonicalResponseAndAListOfCalls) {
  const auto canonical = Make();
  Start(*canonical);
  Write("0001.answer.json", R"({"text": "here", "tool_calls": [
      {"id": "mine", "name": "inspect", "arguments": {"topic": "masks"}}]})");
  EXPECT_EQ(CallIn(Poll(*canonical)).Text("id"), "mine");

  const auto list = Make();
  Start(*list);
  Write("0002.answer.json", R"([{"tool": "inspect", "arguments": {"topic": "masks"}},
      {"tool": "submit_kernel", "arguments": {"code": "X", "summary": "s"}}])");
  EXPECT_EQ(Poll(*list)["done"]["response"]["tool_calls"].size(), 2U);
}

TEST_F(Mailbox, APythonFileIsAKernelOnceItHasStoppedGrowing) {
  const auto instance = Make();
  Start(*instance);
  Write("0001.answer.py", "# Fused in one pass\nimport to");
  EXPECT_TRUE(Waits(Poll(*instance)));
  Write("0001.answer.py", "# Fused in one pass\nimport torch\n");
  EXPECT_TRUE(Waits(Poll(*instance))) << "it has just changed";
  const Json call = CallIn(Poll(*instance));
  EXPECT_EQ(call.Text("name"), "submit_kernel");
  EXPECT_EQ(call["arguments"].Text("code"), "# Fused in one pass\nimport torch\n");
  EXPECT_EQ(call["arguments"].Text("summary"), "Fused in one pass");
}

TEST_F(Mailbox, APythonFileAnswersAnAgentToo) {
  const auto instance = Make();
  Start(*instance, R"({"messages": [{"role": "user", "content": "x"}], "tools": [
      {"name": "validate_model", "parameters": {"properties": {
        "candidate_code": {"type": "string"}, "summary": {"type": "string"}}}}]})");
  Write("0001.answer.py", "import torch\n");
  Poll(*instance);
  const Json call = CallIn(Poll(*instance));
  EXPECT_EQ(call.Text("name"), "validate_model");
  EXPECT_EQ(call["arguments"].Text("candidate_code"), "import torch\n");
}

TEST_F(Mailbox, WordsWithoutAToolOnlyWhereNoToolIsDemanded) {
  const auto free = Make();
  Start(*free, R"({"messages": [{"role": "user", "content": "x"}]})");
  Write("0001.answer.json", R"({"text": "that is all"})");
  EXPECT_EQ(Poll(*free)["done"]["response"].Text("text"), "that is all");

  const auto bound = Make();
  Start(*bound);
  Write("0002.answer.json", R"({"text": "that is all"})");
  EXPECT_TRUE(Waits(Poll(*bound)));
  EXPECT_THAT(Read("0002.problem.txt"), HasSubstr("must be answered with a tool"));
}

TEST_F(Mailbox, WhatCannotBeUsedIsRenamedExplainedAndWaitedForAgain) {
  const struct {
    const char* text;
    const char* problem;
  } kBad[] = {
      {R"([1])", "a call is written"},
      {R"({"answer": 1})", "neither 'tool'"},
      {R"({"tool": "submit"})", "no tool 'submit'"},
      {R"({"tool": "submit_kernel", "arguments": {"code": "X"}})", "needs the argument 'summary'"},
      {R"({"tool": "submit_kernel", "arguments": {"code": 1, "summary": "s"}})", "type string"},
      {R"({"tool": "inspect", "arguments": {"topic": "moon"}})", "must be one of [\"masks\"]"},
      {R"({"tool": "inspect", "arguments": {"topic": "masks", "x": 1}})", "no argument 'x'"},
      {R"({"tool": "inspect", "arguments": []})", "must be an object"},
      {R"({"tool_calls": 1})", "a list"},
  };
  const auto instance = Make();
  Start(*instance);
  int number = 0;
  for (const auto& bad : kBad) {
    Write("0001.answer.json", bad.text);
    EXPECT_TRUE(Waits(Poll(*instance))) << bad.text;
    const std::string renamed = "0001.answer.bad-" + std::to_string(++number) + ".json";
    EXPECT_EQ(Read(renamed), bad.text);
    EXPECT_THAT(Read("0001.problem.txt"), HasSubstr(bad.problem));
    EXPECT_THAT(Read("0001.problem.txt"), HasSubstr(renamed));
  }
  Write("0001.answer.json", R"({"tool": "inspect", "arguments": {"topic": "masks"}})");
  EXPECT_EQ(CallIn(Poll(*instance)).Text("name"), "inspect");
  EXPECT_TRUE(Files().empty()) << "the refused ones are settled, too";
}

TEST_F(Mailbox, HalfWrittenJsonIsNoMistakeUntilItStandsStill) {
  const auto instance = Make();
  Start(*instance);
  Write("0001.answer.json", R"({"tool": "insp)");
  EXPECT_TRUE(Waits(Poll(*instance)));
  EXPECT_FALSE(fs::exists(Box() / "0001.problem.txt"));
  Write("0001.answer.json", R"({"tool": "inspect", "arguments)");
  EXPECT_TRUE(Waits(Poll(*instance)));
  EXPECT_FALSE(fs::exists(Box() / "0001.problem.txt"));
  EXPECT_TRUE(Waits(Poll(*instance)));
  EXPECT_THAT(Read("0001.problem.txt"), HasSubstr("it is not JSON"));
}

TEST_F(Mailbox, NumbersGoOnAndAnOldAnswerIsNeverTaken) {
  const auto first = Make();
  Start(*first);
  Write("0001.answer.json", R"({"tool": "inspect", "arguments": {"topic": "masks"}})");
  Poll(*first);
  const auto second = Make();
  EXPECT_TRUE(Waits(Start(*second)));
  EXPECT_THAT(Files(), ElementsAre("0002.request.json", "0002.request.md"));
}

TEST_F(Mailbox, ARequestThatWasLeftOpenIsTakenUpAgain) {
  { Start(*Make()); }  // the run was cut short
  Write("0001.answer.json", R"({"tool": "inspect", "arguments": {"topic": "masks"}})");
  const auto again = Make();
  EXPECT_EQ(CallIn(Start(*again)).Text("name"), "inspect");
}

TEST_F(Mailbox, TwoThatAskTheSameEachGetAnAnswer) {
  const auto one = Make();
  const auto two = Make();
  Start(*one);
  Start(*two);
  EXPECT_EQ(Files().size(), 2U);
  Write("0001.answer.json", R"({"tool": "inspect", "arguments": {"topic": "masks"}})");
  EXPECT_TRUE(Poll(*one).contains("done"));
  EXPECT_TRUE(Waits(Poll(*two)));
  EXPECT_THAT(Files(), ElementsAre("0002.request.json", "0002.request.md"));
}

TEST_F(Mailbox, TheWaitEndsAfterItsTimeAndTheRequestStaysOpen) {
  const auto instance = Make(Json::Obj({{"poll_s", 10.0}, {"timeout_s", 20.0}}));
  EXPECT_TRUE(Waits(Start(*instance)));
  EXPECT_TRUE(Waits(Poll(*instance)));
  const Json outcome = Poll(*instance);
  EXPECT_EQ(outcome["error"].Text("class"), "timeout");
  EXPECT_THAT(outcome["error"].Text("message"), HasSubstr("0001.request.md came in 20 s"));
  EXPECT_EQ(Files().size(), 2U);
}

TEST_F(Mailbox, ARunThatEndsEndsTheWait) {
  const auto instance = Make();
  Start(*instance);
  const Json outcome = StepOk(*instance, R"({"type": "results", "results": {"poll": {"error": {
      "class": "cancelled", "message": "the run ends"}}}})");
  EXPECT_EQ(outcome["error"].Text("class"), "cancelled");
}

TEST_F(Mailbox, AFolderThatCannotBeUsedIsOneSentence) {
  const auto instance = Make(Json::Obj({{"folder", dir_.Write("file", "x").string()}}));
  const Json outcome = Start(*instance);
  EXPECT_EQ(outcome["error"].Text("class"), "unavailable");
  EXPECT_THAT(outcome["error"].Text("message"), HasSubstr("as folder in the profile"));
}

}  // namespace
}  // namespace kernel_evolve
