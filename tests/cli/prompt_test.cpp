// kernel-evolve prompt: what would be sent, as text and as the canonical request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/json.hpp"
#include "tests/cli/process.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTask[] = "import torch\n\nclass Model(torch.nn.Module):\n    pass\n";

class Prompt : public ::testing::Test {
 protected:
  Finished Show(const std::vector<std::string>& graph_and_node,
                const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"prompt"};
    arguments.insert(arguments.end(), graph_and_node.begin(), graph_and_node.end());
    arguments.insert(arguments.end(), {"--task", folder_.Write("task.py", kTask)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return KernelEvolve(arguments, {}, folder_.path());
  }

  TempFolder folder_;
};

TEST_F(Prompt, ShowsTheMessagesAndTheTools) {
  const Finished finished = Show({"evolve", "generate"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("node generate asks the model author (offline)"));
  EXPECT_THAT(finished.out, HasSubstr("==== user ====\nYou write Triton kernels"));
  EXPECT_THAT(finished.out, HasSubstr("class Model(torch.nn.Module):"));
  EXPECT_THAT(finished.out, HasSubstr("Where Triton kernels go wrong"));
  EXPECT_THAT(finished.out, HasSubstr("==== tools (required) ====\nsubmit_kernel: "));
  EXPECT_THAT(finished.out, HasSubstr("  code (string): The complete Python source"));
  EXPECT_THAT(finished.out, HasSubstr("    memory: Addresses, masks"));
  EXPECT_THAT(finished.out, Not(HasSubstr("edit_kernel")));
}

TEST_F(Prompt, TheSameStateGivesTheSameBytes) {
  for (const char* node : {"analyze", "generate"}) {
    EXPECT_EQ(Show({"evolve", node}).out, Show({"evolve", node}).out);
  }
  EXPECT_EQ(Show({"agent", "agent"}, {"--json"}).out, Show({"agent", "agent"}, {"--json"}).out);
}

TEST_F(Prompt, TheStateOfARunIsGivenAsAFile) {
  const std::string state = folder_.Write("state.json", R"({
      "best": {"id": "c2", "code": "BEST = 1", "speedup": 2.5, "verdict": {"correct": true}},
      "lessons": ["c1: wide tiles spill"]})");
  const Finished finished =
      Show({"evolve", "generate"}, {"--state", state, "--hint", "keep it short"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("(c2, 2.5 times as fast as eager):\n\n```python\nBEST = 1"));
  EXPECT_THAT(finished.out, HasSubstr("- c1: wide tiles spill"));
  EXPECT_THAT(finished.out, HasSubstr("- keep it short"));
  EXPECT_THAT(finished.out, HasSubstr("edit_kernel: "));
}

TEST_F(Prompt, TheRequestItselfIsCanonicalJsonWithTheProfilesSampling) {
  const std::string profile = folder_.Write(
      "p.yaml",
      "kernel_evolve_profile: 1\nmodels:\n  author:\n    provider: openai\n    model: some-model\n"
      "    base_url: http://127.0.0.1:1/v1\n    api_key: \"${env:KEY_THAT_IS_NOT_SET}\"\n"
      "    sampling: {temperature: 0.5}\n");
  const Finished finished = Show({"agent", "agent"}, {"--profile", profile, "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err << "nothing is sent: no key is needed";
  const Result<Json> request = Json::Parse(finished.out);
  ASSERT_TRUE(request.ok()) << finished.out;
  EXPECT_EQ((*request)["sampling"], *Json::Parse(R"({"temperature": 0.5})"));
  EXPECT_EQ((*request)["tool_choice"], Json("auto"));
  EXPECT_FALSE(request->contains("context"));
  EXPECT_EQ((*request)["messages"].size(), 1U);
}

TEST_F(Prompt, WhatCannotBeShownIsOneSentence) {
  const struct {
    std::vector<std::string> arguments;
    const char* sentence;
  } kBad[] = {
      {{"evolve", "generat"}, "no node 'generat'; did you mean 'generate'?"},
      {{"evolve", "compile"}, "the node 'compile' (kernel/compile) asks no model"},
      {{"evolve", "reflect"}, "needs channel 'candidate', which nothing has written yet; --state"},
      {{"evolv", "generate"}, "did you mean 'evolve'?"},
  };
  for (const auto& bad : kBad) {
    const Finished finished = Show(bad.arguments);
    EXPECT_EQ(finished.exit_code, 2) << bad.sentence;
    EXPECT_THAT(finished.err, HasSubstr(bad.sentence));
    EXPECT_EQ(finished.out, "");
  }
  const std::string typo = folder_.Write("typo.json", R"({"lesons": []})");
  EXPECT_THAT(Show({"evolve", "generate"}, {"--state", typo}).err,
              HasSubstr("no channel 'lesons'; did you mean 'lessons'?"));
  const std::string wrong = folder_.Write("wrong.json", R"({"lessons": 1})");
  EXPECT_THAT(Show({"evolve", "generate"}, {"--state", wrong}).err, HasSubstr("'lessons'"));
  const std::string broken = folder_.Write("broken.json", "{");
  EXPECT_THAT(Show({"evolve", "generate"}, {"--state", broken}).err, HasSubstr("broken.json"));
}

}  // namespace
}  // namespace kernel_evolve::testing
