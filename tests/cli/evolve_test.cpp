// The main job end to end: a model stood in for by a cassette, and the author that needs none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "tests/cli/process.hpp"
#include "tests/cli/small_task.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json Exchange(const char* purpose, const char* tool, Json arguments) {
  const Json call = Json::Obj({{"id", "t1"}, {"name", tool}, {"arguments", std::move(arguments)}});
  return Json::Obj(
      {{"purpose", purpose},
       {"response", Json::Obj({{"text", ""},
                               {"tool_calls", Json::Arr({call})},
                               {"usage", Json::Obj({{"input_tokens", 10}, {"output_tokens", 5}})},
                               {"finish_reason", "tool_calls"}})}});
}

Json Analyze() {
  return Exchange("analyze", "submit_analysis",
                  Json::Obj({{"analysis", "three pointwise operators"},
                             {"ideas", Json::Arr({"fuse"})},
                             {"rewritable", true}}));
}
Json Submit(const std::string& code, const char* summary) {
  return Exchange("generate", "submit_kernel", Json::Obj({{"code", code}, {"summary", summary}}));
}
Json Reflect(const char* lesson) {
  return Exchange("reflect", "record_lesson", Json::Obj({{"lesson", lesson}, {"next", "go on"}}));
}

// A folder with the task, a cassette and a profile that binds the author to it.
class Cassette {
 public:
  explicit Cassette(std::initializer_list<Json> exchanges) {
    task = folder.Write("task.py", kTask);
    folder.Write("author.json", Json::Obj({{"exchanges", Json::Arr(exchanges)}}).Dump(1));
    profile = folder.Write("profile.yaml",
                           "kernel_evolve_profile: 1\n"
                           "models: {author: {provider: replay, cassette: " +
                               (folder.path() / "author.json").string() +
                               "}}\n"
                               "evaluator: {use: simulator}\n");
    run = (folder.path() / "run").string();
  }
  Finished Evolve(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"evolve", task, "--profile", profile,
                                          "--out",  run,  "--seed",    "7"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return KernelEvolve(arguments, {}, folder.path());
  }
  Json File(const char* name) const {
    const Result<std::string> text = ReadFile(std::filesystem::path(run) / name);
    EXPECT_TRUE(text.ok()) << text.error().message;
    return *Json::Parse(*text);
  }

  TempFolder folder;
  std::string task, profile, run;
};

TEST(Evolve, ARecordedModelLearnsFromItsVerdicts) {
  const Cassette cassette({Analyze(), Submit("class ModelNew(:\n", "typo"), Reflect("no typos"),
                           Submit(WrongKernel(), "wrong constant"), Reflect("the constant is one"),
                           Submit(WinningKernel(), "fused"), Reflect("one pass is enough")});
  const Finished finished = cassette.Evolve({"--input", "generations=3"});
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("Success: c3 is correct"));
  EXPECT_THAT(finished.out, HasSubstr("modelled"));
  EXPECT_THAT(finished.err, HasSubstr("c1: failed at parse"));
  EXPECT_THAT(finished.err, HasSubstr("c2: failed at correctness"));

  const Json verdict = cassette.File("verdict.json");
  EXPECT_EQ(verdict.Text("class"), "modelled");
  EXPECT_TRUE(verdict.Flag("win"));
  EXPECT_GT(verdict["metrics"].Number("speedup"), 1.5);
  const Json report = cassette.File("report.json");
  EXPECT_EQ(report["usage"].Integer("llm_calls"), 7);
  EXPECT_EQ(report["usage"].Integer("tokens"), 105);
  EXPECT_EQ(report["candidates"].size(), 3U);

  // What was handed over is what was judged: it wins again, on other data.
  const Finished again =
      KernelEvolve({"evaluate", cassette.task, cassette.run + "/best.py", "--seed", "8"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("Win: correct"));

  // A run folder is never written over.
  const Finished twice = cassette.Evolve();
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("holds a run already"));
}

TEST(Evolve, OnlyWrongCandidatesIsNoSuccess) {
  const Cassette cassette({Analyze(), Submit(WrongKernel(), "wrong"), Reflect("hm")});
  const Finished finished = cassette.Evolve({"--input", "generations=1"});
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("No success"));
  EXPECT_FALSE(std::filesystem::exists(cassette.run + "/best.py"));
  EXPECT_FALSE(cassette.File("report.json").Flag("success"));
}

TEST(Evolve, AUsedUpCassetteEndsTheRunAndKeepsTheBest) {
  const Cassette cassette({Analyze(), Submit(WinningKernel(), "fused"), Reflect("good")});
  const Finished finished = cassette.Evolve({"--input", "generations=2"});
  EXPECT_EQ(cassette.File("report.json").Text("status"), "failed");
  EXPECT_THAT(cassette.File("report.json").Text("status_reason"), HasSubstr("cassette"));
  EXPECT_TRUE(cassette.File("verdict.json").Flag("win"));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
}

TEST(Evolve, ABudgetEndsTheRunWithTheBestSoFar) {
  const Cassette cassette(
      {Analyze(), Submit(WinningKernel(), "fused"), Reflect("good"),
       Submit(Replaced(WinningKernel(), "BLOCK=1024", "BLOCK=512"), "narrower")});
  const Finished finished = cassette.Evolve({"--budget", "evaluations=1"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(cassette.File("report.json").Text("status"), "budget");
}

TEST(Evolve, TheUsersOwnKernelIsJudgedFirst) {
  const Cassette cassette({Analyze(), Reflect("fine")});
  const std::string own = cassette.folder.Write("own.py", WinningKernel());
  const Finished finished =
      cassette.Evolve({"--start", own, "--hint", "keep it short", "--input", "generations=1"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(cassette.File("report.json")["best"].Text("origin"), "user");
}

TEST(Evolve, TheOfflineAuthorNeedsNoModel) {
  const TempFolder folder;
  const std::string task = folder.Write("task.py", kTask);
  const Finished finished = KernelEvolve(
      {"evolve", task, "--seed", "1", "--budget", "evaluations=2", "--json"}, {}, folder.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Result<Json> report = Json::Parse(finished.out);
  ASSERT_TRUE(report.ok()) << finished.out;
  EXPECT_TRUE(report->Flag("success"));
  EXPECT_THAT((*report)["best"].Text("code"), HasSubstr("class ModelNew"));
}

TEST(Evolve, WhatCannotBeRewrittenIsSaidByName) {
  const TempFolder folder;
  const std::string task = folder.Write(
      "task.py", Replaced(kTask, "torch.relu(x * 2.0 + 1.0)", "torch.sort(x, dim=-1).values"));
  const Finished finished = KernelEvolve({"evolve", task}, {}, folder.path());
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("sort"));
  EXPECT_THAT(finished.err, Not(HasSubstr("Traceback")));
}

}  // namespace
}  // namespace kernel_evolve::testing
