// Tasks that are no tasks, and machines that lack something. Each ends with one sentence, before
// any model is asked, and leaves no run folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/process.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHead[] = "import torch\nimport torch.nn as nn\n";
constexpr char kInputs[] =
    "def get_inputs():\n    return [torch.randn(64, 64)]\n"
    "def get_init_inputs():\n    return []\n";

std::string TaskWith(const std::string& forward) {
  return std::string(kHead) + "class Model(nn.Module):\n    def forward(self, x):\n        " +
         forward + "\n" + kInputs;
}

struct Case {
  const char* name;
  std::string task;
  const char* says;
  const char* evaluator = "{use: simulator}";
};

class BadTask : public ::testing::TestWithParam<Case> {};

TEST_P(BadTask, EndsWithOneSentence) {
  const TempFolder folder;
  const std::string task = folder.Write("task.py", GetParam().task);
  const std::string profile =
      folder.Write("profile.yaml",
                   std::string("kernel_evolve_profile: 1\nmodels: {author: {provider: offline}}\n"
                               "evaluator: ") +
                       GetParam().evaluator + "\n");
  const Finished finished = KernelEvolve({"evolve", task, "--profile", profile}, {}, folder.path());
  EXPECT_EQ(finished.exit_code, 2) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr(GetParam().says));
  EXPECT_THAT(finished.err, Not(HasSubstr("Traceback")));
  EXPECT_TRUE(!std::filesystem::exists(folder.path() / "runs") ||
              std::filesystem::is_empty(folder.path() / "runs"));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadTask,
    ::testing::Values(
        Case{"NoModel", std::string(kHead) + kInputs, "doesn't define Model"},
        Case{"NoInputs", std::string(kHead) + "class Model(nn.Module):\n    pass\n",
             "doesn't define get_inputs and get_init_inputs"},
        Case{"SyntaxError", "def forward(:\n", "syntax error in line 1"},
        Case{"Raises", TaskWith("raise ValueError('no luck')"), "ValueError: no luck"},
        Case{"NeverEnds", TaskWith("\n        while True: pass"), "did not come to an end",
             "{use: simulator, with: {judge_deadline_s: 3}}"},
        Case{"Random", TaskWith("return torch.rand_like(x) + x"), "random"},
        Case{"NotANumber", TaskWith("return x / 0 * 0"), "NaN"},
        Case{"MissingModule", "import no_such_module_here\n" + TaskWith("return x + 1"),
             "no_such_module_here"},
        Case{"InitDoesNotFit",
             std::string(kHead) +
                 "class Model(nn.Module):\n    def __init__(self, a, b):\n"
                 "        super().__init__()\n    def forward(self, x):\n        return x\n" +
                 kInputs,
             "get_init_inputs"},
        Case{"TooWeak", TaskWith("return torch.zeros_like(x)"), "zero"}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(Environment, APythonThatIsNotThereIsNamed) {
  const TempFolder folder;
  const std::string task = folder.Write("task.py", TaskWith("return x * 2 + 1"));
  const Finished finished =
      KernelEvolve({"evolve", task, "--python", "/nowhere/python3"}, {}, folder.path());
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("/nowhere/python3"));
}

TEST(Environment, APythonWithoutTorchSaysWhatToType) {
  const TempFolder folder;
  const std::string task = folder.Write("task.py", TaskWith("return x * 2 + 1"));
  // The system's own Python: an environment's packages are not seen from it.
  const Finished finished =
      KernelEvolve({"evolve", task, "--python", "/usr/bin/python3"}, {}, folder.path());
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("pip install torch"));
}

}  // namespace
}  // namespace kernel_evolve::testing
