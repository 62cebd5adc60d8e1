// What a user can get wrong on the command line, before anything is run. Each ends with one
// sentence that says what to do, exit 2, and no run folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/process.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  const char* name;
  std::vector<std::string> arguments;  // TASK stands for a good task, FOLDER for the test's folder
  int exit_code;
  const char* says;
};

class Usage : public ::testing::TestWithParam<Case> {};

TEST_P(Usage, EndsWithOneSentence) {
  const TempFolder folder;
  const std::string task = std::string(KERNEL_EVOLVE_SOURCE_DIR) + "/examples/tasks/diag_matmul.py";
  folder.Write("empty.py", "");
  folder.Write("binary.py", std::string("\x7f\x45LF\x00\xff", 6));
  folder.Write("bad.yaml", "kernel_evolve: 1\nname: x\nnodez: {}\n");
  folder.Write("plugins/fake.so", "this is text, not a library\n");
  folder.Write("profile.yaml", "kernel_evolve_profile: 1\nmodels: {author: {provider: nobody}}\n");
  folder.Write("alias.yaml", "kernel_evolve_profile: 1\nmodels: {autor: {provider: offline}}\n");
  std::vector<std::string> arguments;
  for (const std::string& argument : GetParam().arguments) {
    std::string text = argument == "TASK" ? task : argument;
    if (const size_t at = text.find("FOLDER"); at != std::string::npos) {
      text.replace(at, 6, folder.path().string());
    }
    arguments.push_back(text);
  }
  const Finished finished = KernelEvolve(arguments, {}, folder.path());
  EXPECT_EQ(finished.exit_code, GetParam().exit_code) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr(GetParam().says));
  EXPECT_THAT(finished.err, Not(HasSubstr("Traceback")));
  EXPECT_THAT(finished.err, Not(HasSubstr("terminate called")));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "runs"));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Usage,
    ::testing::Values(
        Case{"UnknownFlag", {"evolve", "TASK", "--grpah", "x"}, 2, "did you mean '--graph'?"},
        Case{"UnknownCommand", {"evlove"}, 2, "did you mean 'evolve'?"},
        Case{"NoTask", {"evolve"}, 2, "TASK is required"},
        Case{"TaskMissing", {"evolve", "nowhere.py"}, 2, "cannot read nowhere.py"},
        Case{"TaskIsFolder", {"evolve", "FOLDER"}, 2, "is a folder, not a file"},
        Case{"TaskIsEmpty", {"evolve", "FOLDER/empty.py"}, 2, "is empty"},
        Case{"TaskIsBinary", {"evolve", "FOLDER/binary.py"}, 2, "is not a text file"},
        Case{"UnknownGraph", {"evolve", "TASK", "--graph", "evolv"}, 2, "did you mean 'evolve'?"},
        Case{"GraphFileMissing", {"evolve", "TASK", "--graph", "x.yaml"}, 2, "no graph file"},
        Case{"BadGraph",
             {"evolve", "TASK", "--graph", "FOLDER/bad.yaml"},
             2,
             "bad.yaml:3:1: error["},
        Case{"BadBudget", {"evolve", "TASK", "--budget", "wal=3m"}, 2, "did you mean 'wall'?"},
        Case{"BadBudgetValue", {"evolve", "TASK", "--budget", "wall=3"}, 2, "wall=3"},
        Case{"BadSeed", {"evolve", "TASK", "--seed", "x"}, 2, "--seed"},
        Case{"ProfileMissing", {"evolve", "TASK", "--profile", "p.yaml"}, 2, "p.yaml"},
        Case{
            "UnknownProvider", {"evolve", "TASK", "--profile", "FOLDER/profile.yaml"}, 2, "nobody"},
        Case{"UnknownAlias", {"evolve", "TASK", "--profile", "FOLDER/alias.yaml"}, 2, "autor"},
        Case{"StartMissing", {"evolve", "TASK", "--start", "k.py"}, 2, "cannot read k.py"},
        Case{"PluginIsNoPlugin",
             {"plugins", "list", "--plugin-path", "FOLDER/plugins"},
             3,
             "fake.so"},
        Case{"ValidateReportsAll", {"validate", "FOLDER/bad.yaml"}, 2, "nodez"},
        Case{"CandidateMissing", {"evaluate", "TASK", "c.py"}, 2, "cannot read c.py"},
        Case{"UnknownInput",
             {"run", "evolve", "--task", "TASK", "--input", "generation=3"},
             2,
             "generations"}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(Cli, VersionAndHelp) {
  EXPECT_EQ(KernelEvolve({"--version"}).out.rfind("kernel-evolve 1.", 0), 0U);
  for (const char* command : {"evolve", "run", "validate", "graph", "evaluate", "doctor"}) {
    const Finished help = KernelEvolve({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("kernel-evolve ") + command));
  }
}

TEST(Cli, ShippedGraphsAreValidAndDrawn) {
  const Finished valid = KernelEvolve({"validate", "evolve"});
  EXPECT_EQ(valid.exit_code, 0) << valid.err;
  const Finished drawn = KernelEvolve({"graph", "evolve"});
  EXPECT_THAT(drawn.out, HasSubstr("flowchart"));
  EXPECT_THAT(KernelEvolve({"graph", "evolve", "--dot"}).out, HasSubstr("digraph"));
}

TEST(Cli, DoctorTellsWhetherAGpuMeasures) {
  // A driver of our own, in the place of the machine's.
  const std::string driver = KERNEL_EVOLVE_BUILD_DIR "/tests/replay/driver";
  const auto doctor = [&](const std::string& failing) {
    return KernelEvolve({"doctor", "--python", "/nowhere/python"},
                        {{"LD_LIBRARY_PATH", driver}, {"FAKE_CUDA_FAIL", failing}})
        .out;
  };
  EXPECT_THAT(doctor(""), HasSubstr("Imagined GPU; a profile with 'evaluator: {use: gpu}'"));
  EXPECT_THAT(doctor("cuInit:100"), HasSubstr("no GPU that it opens (error 100): verdicts are"));
  EXPECT_THAT(doctor("cuDeviceGetCount:3"), HasSubstr("(error 3): verdicts are modelled"));
}

TEST(Cli, PluginsListNamesEveryType) {
  const Finished list = KernelEvolve({"plugins", "list"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  for (const char* type : {"kernel/generate", "offline", "replay", "simulator"}) {
    EXPECT_THAT(list.out, HasSubstr(type));
  }
}

}  // namespace
}  // namespace kernel_evolve::testing
