// The shipped plugins that only make calls: which calls, in which order, and what becomes of the
// answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::HasSubstr;

class ShippedTest : public testing::Test {
 protected:
  // Creates the only type of a plugin.
  std::unique_ptr<Instance> Create(const std::string& id, const std::string& params = "{}") {
    registry_.push_back(ScanOnly(Shipped(id)));
    EXPECT_EQ(registry_.back().types().size(), 1U) << id;
    auto made = registry_.back().Create(registry_.back().types().at(0), ConfigOf(params), nullptr);
    if (made.ok()) return *std::move(made);
    refusal_ = made.error().message;
    return nullptr;
  }

  std::vector<Registry> registry_;
  std::string refusal_;
};

Json Only(const Json& asked) {
  EXPECT_EQ(asked["effects"].size(), 1U) << asked.Dump();
  return asked["effects"].size() == 1 ? asked["effects"].array()[0] : Json();
}

constexpr char kEvaluate[] = R"({"type": "start", "request": {
  "task": {"name": "t", "source": "class Model: ..."}, "candidate": {"code": "x"},
  "asked": "full", "seed": 7}})";

TEST_F(ShippedTest, TheSimulatorRecordsThenJudges) {
  const auto simulator = Create("evaluator_simulator", R"({"record_deadline_s": 5})");
  const Json record = Only(StepOk(*simulator, kEvaluate));
  EXPECT_EQ(record.Text("module"), "kernel_evolve_worker.recording.record");
  EXPECT_EQ(record.Text("function"), "record");
  EXPECT_TRUE(record["session"].is_null()) << "the candidate runs in a process of its own";
  EXPECT_EQ(record.Number("deadline_s"), 5.0);
  EXPECT_EQ(record["request"]["candidate"], Parsed(R"({"code": "x"})"));
  EXPECT_FALSE(record["request"].contains("seed")) << "a candidate never sees the secret seed";

  const Json judge = Only(StepOk(*simulator, R"({"type": "results", "results": {
      "e1": {"ok": {"ok": true, "tape": {"tape": 1}}}}})"));
  EXPECT_EQ(judge.Text("module"), "evaluator_simulator.judge");
  EXPECT_EQ(judge.Text("session").rfind("judge:", 0), 0U);
  EXPECT_EQ(judge.Number("deadline_s"), 600.0);
  EXPECT_EQ(judge["request"], Parsed(R"({"task": {"name": "t", "source": "class Model: ..."},
      "record": {"ok": true, "tape": {"tape": 1}}, "asked": "full", "seed": 7})"));

  EXPECT_EQ(StepOk(*simulator, R"({"type": "results", "results": {"e2": {"ok": {"win": true}}}})"),
            Parsed(R"({"done": {"verdict": {"win": true}}})"));
}

TEST_F(ShippedTest, TheSimulatorAskedAboutTheTaskAloneTriesItAndRunsNoCandidate) {
  const auto simulator = Create("evaluator_simulator");
  const Json trial = Only(StepOk(*simulator, R"({"type": "start", "request": {
      "task": {"source": "class Model: ..."}, "asked": "task", "seed": 7}})"));
  EXPECT_EQ(trial.Text("function"), "try_task");
  const Json done = StepOk(*simulator, R"({"type": "results", "results": {"e1": {"ok": {
      "original_time": 2.75, "precision": "fp32", "notes": []}}}})");
  const Json& verdict = done["done"]["verdict"];
  EXPECT_TRUE(verdict.Flag("ok"));
  EXPECT_FALSE(verdict.Flag("win", true));
  EXPECT_EQ(verdict.Text("reason"),
            "the task is sound; eager takes 2.75 ms (modelled), judged as fp32");
}

TEST_F(ShippedTest, TheMeasuringEvaluatorRecordsWithoutAGpuAndJudgesWithOne) {
  const auto gpu = Create("evaluator_gpu", R"({"compile_baseline": false})");
  const Json record = Only(StepOk(*gpu, kEvaluate));
  EXPECT_EQ(record.Text("function"), "record");
  EXPECT_FALSE(record["limits"].contains("gpu"));
  EXPECT_FALSE(record["request"].contains("seed"));
  const Json judge = Only(StepOk(*gpu, R"({"type": "results", "results": {
      "e1": {"ok": {"ok": true}}}})"));
  EXPECT_EQ(judge.Text("module"), "evaluator_gpu.judge");
  EXPECT_EQ(judge.Text("session").rfind("gpu:", 0), 0U);
  EXPECT_EQ(judge["limits"], Parsed(R"({"gpu": true, "memory_mb": 0})"));
  EXPECT_EQ(judge["request"], Parsed(R"({"task": {"name": "t", "source": "class Model: ..."},
      "record": {"ok": true}, "asked": "full", "seed": 7, "compile_baseline": false,
      "reuse_verdicts": true})"));

  const auto trying = Create("evaluator_gpu");
  StepOk(*trying, R"({"type": "start", "request": {
      "task": {"source": "class Model: ..."}, "asked": "task", "seed": 7}})");
  const Json done = StepOk(*trying, R"({"type": "results", "results": {"e1": {"ok": {
      "original_time": 2.75, "precision": "fp32", "notes": []}}}})");
  EXPECT_EQ(done["done"]["verdict"].Text("class"), "tape");
  EXPECT_EQ(done["done"]["verdict"].Text("reason"),
            "the task is sound; eager takes 2.75 ms (measured), judged as fp32");
}

TEST_F(ShippedTest, OneTaskHasOneJudgeProcess) {
  const auto session = [this](const std::string& source) {
    const auto simulator = Create("evaluator_simulator");
    StepOk(*simulator, R"({"type": "start", "request": {"task": {"source": ")" + source +
                           R"("}, "candidate": {}, "asked": "full", "seed": 1}})");
    return Only(StepOk(*simulator, R"({"type": "results",
                                       "results": {"e1": {"ok": {"ok": false}}}})"))
        .Text("session");
  };
  EXPECT_EQ(session("a"), session("a"));
  EXPECT_NE(session("a"), session("b"));
}

constexpr char kJudgedResult[] = R"({"type": "results", "results": {"e1": {"ok": {
    "code": "not_faster"}}}})";

TEST_F(ShippedTest, AFullEvaluationBeginsWithWhatTheTrialCompileRecorded) {
  const std::string compiled = R"({"recording": {"ok": true, "tape": {"path": "t"},
      "seconds": {"record": 2}}})";
  const std::string start = R"({"type": "start", "request": {"task": {"source": "t"},
      "candidate": {"code": "x"}, "asked": "full", "seed": 7, "compiled": )" +
                            compiled + "}}";
  {
    const auto gpu = Create("evaluator_gpu");
    const Json judge = Only(StepOk(*gpu, start));
    EXPECT_EQ(judge.Text("function"), "judge");
    EXPECT_EQ(judge["request"]["record"],
              Parsed(R"({"ok": true, "tape": {"path": "t"}, "seconds": {}})"))
        << "time that was spent before does not count twice";
    EXPECT_FALSE(judge["request"].contains("compiled"));
    EXPECT_EQ(StepOk(*gpu, kJudgedResult)["done"]["verdict"].Text("code"), "not_faster");
  }
  const auto gone = Create("evaluator_gpu");
  StepOk(*gone, start);
  const Json record = Only(StepOk(*gone, R"({"type": "results", "results": {"e1": {"ok": {
      "code": "no_recording"}}}})"));
  EXPECT_EQ(record.Text("function"), "record") << "the tape is gone";
  const Json judge = Only(StepOk(*gone, R"({"type": "results", "results": {"e2": {"ok": {
      "ok": true, "tape": {"path": "u"}}}}})"));
  EXPECT_EQ(judge["request"]["record"]["tape"].Text("path"), "u");
}

TEST_F(ShippedTest, ATrialCompileLeavesItsRecording) {
  const auto verdict_of = [this](const std::string& asked, const std::string& record) {
    const auto gpu = Create("evaluator_gpu");
    StepOk(*gpu,
           R"({"type": "start", "request": {"task": {"source": "t"}, "candidate": {"code": "x"},
        "asked": ")" +
               asked + R"(", "seed": 7}})");
    StepOk(*gpu, R"({"type": "results", "results": {"e1": {"ok": )" + record + "}}}");
    const Json done =
        StepOk(*gpu, R"({"type": "results", "results": {"e2": {"ok": {"ok": true}}}})");
    return done["done"]["verdict"];
  };
  EXPECT_EQ(verdict_of("compile", R"({"ok": true, "n": 1})")["recording"],
            Parsed(R"({"ok": true, "n": 1})"));
  EXPECT_FALSE(verdict_of("compile", R"({"ok": false})").contains("recording"));
  EXPECT_FALSE(verdict_of("full", R"({"ok": true})").contains("recording"));
}

std::string Failure(const std::string& id, const std::string& error_class) {
  return R"({"type": "results", "results": {")" + id + R"(": {"error": {"class": ")" + error_class +
         R"(", "message": "it took 5 s"}}}})";
}

TEST_F(ShippedTest, ACandidateThatHangsOrDiesIsJudgedOnceTheTaskIsKnownToBeSound) {
  for (const auto& [error_class, code] :
       {std::pair{"timeout", "timeout"}, {"internal", "crashed"}, {"invalid_output", "crashed"}}) {
    const auto simulator = Create("evaluator_simulator");
    StepOk(*simulator, kEvaluate);
    const Json trial = Only(StepOk(*simulator, Failure("e1", error_class)));
    EXPECT_EQ(trial.Text("function"), "try_task");
    const Json judge = Only(StepOk(*simulator, R"({"type": "results", "results": {
        "e2": {"ok": {"ok": true}}}})"));
    EXPECT_EQ(judge.Text("session"), trial.Text("session"));
    EXPECT_EQ(judge["request"]["record"],
              Json::Obj({{"ok", false},
                         {"stage", "correctness"},
                         {"code", code},
                         {"reason", "while the candidate ran: it took 5 s"},
                         {"feedback", Json::Arr()}}));
  }
}

TEST_F(ShippedTest, ATaskThatHangsIsAnErrorAndNoVerdict) {
  const auto simulator = Create("evaluator_simulator");
  StepOk(*simulator, kEvaluate);
  StepOk(*simulator, Failure("e1", "timeout"));
  EXPECT_EQ(StepOk(*simulator, Failure("e2", "timeout")),
            Parsed(R"({"error": {"class": "timeout", "message": "it took 5 s"}})"));
}

TEST_F(ShippedTest, WhatIsNotTheCandidatesFaultEndsTheEvaluation) {
  for (const char* error_class : {"validation", "unavailable", "cancelled"}) {
    const auto simulator = Create("evaluator_simulator");
    StepOk(*simulator, kEvaluate);
    EXPECT_EQ(
        StepOk(*simulator, Failure("e1", error_class)),
        Json::Obj({{"error", Json::Obj({{"class", error_class}, {"message", "it took 5 s"}})}}));
  }
}

TEST_F(ShippedTest, TheOfflineAuthorPassesTheRequestOn) {
  const auto offline = Create("provider_offline");
  const Json call = Only(StepOk(*offline, R"({"type": "start", "request": {"messages": []}})"));
  EXPECT_EQ(call.Text("module"), "offline_author.answer");
  EXPECT_EQ(call["request"], Parsed(R"({"request": {"messages": []}, "seed": 42})"));
  EXPECT_EQ(
      StepOk(*offline, R"({"type": "results", "results": {"answer": {"ok": {"text": "hi"}}}})"),
      Parsed(R"({"done": {"response": {"text": "hi"}}})"));
}

// What the replay provider answers to call number `call`.
std::string Answer(Instance& replay, const std::string& purpose, int call) {
  Result<Json> outcome = replay.Step(
      Json::Obj({{"type", "start"},
                 {"call", call},
                 {"request", Json::Obj({{"context", Json::Obj({{"purpose", purpose}})}})}}));
  if (!outcome.ok()) return outcome.error().message;
  if (outcome->contains("error")) {
    return (*outcome)["error"].Text("class") + ": " + (*outcome)["error"].Text("message");
  }
  return (*outcome)["done"]["response"].Text("text");
}

constexpr char kCassette[] = R"({"exchanges": [
  {"purpose": "analyze", "response": {"text": "first"}}, {"response": {"text": "second"}}]})";

std::string CassetteParam(const std::string& text) {
  return Json::Obj({{"cassette", Json::Obj({{"path", "/c.json"}, {"text", text}})}}).Dump();
}

TEST_F(ShippedTest, TheReplayAnswersByTheNumberOfTheCall) {
  const std::string params = CassetteParam(kCassette);
  EXPECT_EQ(Answer(*Create("provider_replay", params), "analyze", 0), "first");
  EXPECT_EQ(Answer(*Create("provider_replay", params), "generate", 1), "second");
  EXPECT_EQ(Answer(*Create("provider_replay", params), "generate", 2),
            "unavailable: the cassette /c.json holds 2 exchanges and the run asks for call 3; "
            "record a longer one");
}

TEST_F(ShippedTest, TheReplayRefusesAnotherQuestion) {
  EXPECT_EQ(Answer(*Create("provider_replay", CassetteParam(kCassette)), "reflect", 0),
            "unavailable: call 1 asks with purpose 'reflect' where the cassette /c.json recorded "
            "'analyze'; the strategy or the task differs from the recorded run: record it again");
}

TEST_F(ShippedTest, TheReplayChecksTheRequestsHashWhenTheCassetteHasOne) {
  const std::string wrong =
      R"({"exchanges": [{"request_hash": "0000000000000000", "response": {"text": "x"}}]})";
  const std::string said = Answer(*Create("provider_replay", CassetteParam(wrong)), "a", 0);
  EXPECT_THAT(said, HasSubstr("asks with request_hash '"));
  // The sentence says the hash that would have been right.
  const std::string hash = said.substr(said.find('\'') + 1, 16);
  const std::string right =
      R"({"exchanges": [{"request_hash": ")" + hash + R"(", "response": {"text": "x"}}]})";
  EXPECT_EQ(Answer(*Create("provider_replay", CassetteParam(right)), "a", 0), "x");
}

TEST_F(ShippedTest, TheReplayReadsACassetteFromAPath) {
  const TempDir dir;
  const auto file = dir.Write("c.json", kCassette);
  const auto replay = Create("provider_replay", Json::Obj({{"cassette", file.string()}}).Dump());
  ASSERT_NE(replay, nullptr) << refusal_;
  EXPECT_EQ(Answer(*replay, "analyze", 0), "first");
}

TEST_F(ShippedTest, TheReplayRefusesAnUnusableCassette) {
  const std::pair<const char*, const char*> cases[] = {
      {"[", "cassette: /c.json is not valid JSON"},
      {"[]", "cassette: /c.json has no array 'exchanges'"},
      {R"({"exchanges": [{}]})",
       "cassette: exchange 1 of /c.json needs either a 'response' object or an 'error' with "
       "class and message"},
      {R"({"exchanges": [{"response": {}, "purpos": "x"}]})",
       "cassette: exchange 1 of /c.json has the unknown key 'purpos'"},
      {R"({"exchanges": [{"response": {}, "purpose": 1}]})",
       "cassette: exchange 1 of /c.json: 'purpose' is not text"},
  };
  for (const auto& [text, sentence] : cases) {
    EXPECT_EQ(Create("provider_replay", CassetteParam(text)), nullptr);
    EXPECT_EQ(refusal_, sentence);
  }
  EXPECT_EQ(Create("provider_replay", R"({"cassette": "/no/such/file"})"), nullptr);
  EXPECT_EQ(refusal_, "cassette: cannot read /no/such/file");
}

}  // namespace
}  // namespace kernel_evolve
