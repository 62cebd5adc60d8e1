// The strategy `agent` end to end: one conversation, stood in for by a cassette or by the author
// that needs no model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "tests/cli/process.hpp"
#include "tests/cli/small_task.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::HasSubstr;

Json Call(const char* id, const char* tool, Json arguments) {
  return Json::Obj({{"id", id}, {"name", tool}, {"arguments", std::move(arguments)}});
}

Json Exchange(Json calls, const char* text = "") {
  return Json::Obj(
      {{"purpose", "agent"},
       {"response", Json::Obj({{"text", text},
                               {"tool_calls", std::move(calls)},
                               {"usage", Json::Obj({{"input_tokens", 10}, {"output_tokens", 5}})},
                               {"finish_reason", "stop"}})}});
}

Json Validate(const std::string& code) {
  return Call("t1", "validate_model", Json::Obj({{"candidate_code", code}, {"summary", "first"}}));
}

Json Edit(const char* id, const char* search, const char* replace) {
  const Json edit = Json::Obj({{"search", search}, {"replace", replace}});
  return Call(id, "edit_kernel", Json::Obj({{"edits", Json::Arr({edit})}, {"summary", "mended"}}));
}

class Agent : public ::testing::Test {
 protected:
  Finished Evolve(std::initializer_list<Json> exchanges,
                  const std::vector<std::string>& more = {}) {
    folder_.Write("author.json", Json::Obj({{"exchanges", Json::Arr(exchanges)}}).Dump(1));
    const std::string profile = folder_.Write(
        "profile.yaml",
        "kernel_evolve_profile: 1\nmodels: {author: {provider: replay, cassette: author.json}}\n"
        "evaluator: {use: simulator}\n");
    std::vector<std::string> arguments = {"evolve",    folder_.Write("task.py", kTask),
                                          "--graph",   "agent",
                                          "--profile", profile,
                                          "--out",     run_,
                                          "--seed",    "7"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return KernelEvolve(arguments, {}, folder_.path());
  }
  Json Report() const {
    const Result<std::string> text = ReadFile(std::filesystem::path(run_) / "report.json");
    EXPECT_TRUE(text.ok()) << text.error().message;
    return text.ok() ? *Json::Parse(*text) : Json();
  }

  TempFolder folder_;
  const std::string run_ = (folder_.path() / "run").string();
};

TEST_F(Agent, TheBestVerifiedCandidateIsTheAnswerWhateverTheLastMessageSays) {
  const Finished finished =
      Evolve({Exchange(Json::Arr({Call("t1", "inspect", Json::Obj({{"topic", "memory"}}))})),
              Exchange(Json::Arr({Validate(WrongKernel())})),
              // Two calls in one answer: the first mends it, the second breaks it again.
              Exchange(Json::Arr({Edit("t1", "+ 1.5", "+ 1.0"), Edit("t2", "* 2.0", "* 2.5")})),
              Exchange(Json::Arr(), "The last one is my best.")});
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("Success: c2 is correct"));
  EXPECT_THAT(finished.err, HasSubstr("c1: failed at correctness"));
  EXPECT_THAT(finished.err, HasSubstr("c3: failed at correctness"));
  const Json report = Report();
  EXPECT_EQ(report.Text("status"), "done");
  EXPECT_EQ(report["usage"].Integer("llm_calls"), 4);
  EXPECT_EQ(report["best"].Text("parent"), "c1");
  EXPECT_THAT(report["best"].Text("code"), HasSubstr("x * 2.0 + 1.0"));
}

TEST_F(Agent, ABudgetEndsTheConversationAndKeepsTheBest) {
  const Finished finished =
      Evolve({Exchange(Json::Arr({Validate(WrongKernel())})),
              Exchange(Json::Arr({Edit("t1", "+ 1.5", "+ 1.0"), Edit("t2", "* 2.0", "* 2.5")}))},
             {"--budget", "evaluations=2"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(Report().Text("status"), "budget");
  EXPECT_EQ(Report()["best"].Text("id"), "c2");
}

TEST_F(Agent, AModelThatCallsNoToolIsNoSuccessAndItsWordsAreTold) {
  const Json words = Exchange(Json::Arr(), "Sorting can't be a kernel.");
  const Finished finished = Evolve({words, words, words});
  EXPECT_EQ(finished.exit_code, 1) << finished.out;
  EXPECT_THAT(finished.err, HasSubstr("Sorting can't be a kernel."));
}

TEST_F(Agent, TheOfflineAuthorWorksAsAnAgent) {
  const std::string task = folder_.Write("task.py", kTask);
  const Finished finished = KernelEvolve(
      {"evolve", task, "--graph", "agent", "--seed", "1", "--input", "turns=2", "--json"}, {},
      folder_.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Result<Json> report = Json::Parse(finished.out);
  ASSERT_TRUE(report.ok()) << finished.out;
  EXPECT_TRUE(report->Flag("success"));
  EXPECT_EQ((*report)["usage"].Integer("llm_calls"), 2);
}

}  // namespace
}  // namespace kernel_evolve::testing
