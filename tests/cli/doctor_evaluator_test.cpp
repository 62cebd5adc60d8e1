// doctor --evaluator: what it says of evaluators that hold, and of some that don't.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/json.hpp"
#include "tests/cli/process.hpp"
#include "tests/cli/small_task.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A corpus of one task, kTask. Its exploits are wrong kernels unless said.
class Corpus {
 public:
  Corpus() { folder_.Write("corpus/tasks/task.py", kTask); }

  // `exploit` holds further members of the one exploit.
  void Add(const std::string& name, const std::string& exploit,
           const std::string& code = WrongKernel(), const std::string& twin = WinningKernel()) {
    entries_ += (entries_.empty() ? "" : ",\n") + std::string(R"({"name": ")") + name +
                R"(", "task": "task", "mechanism": "a mistake", "honest": "faster",
                   "exploits": [{"file": "exploit.py", "gpu": false)" +
                exploit + "}]}";
    folder_.Write("corpus/" + name + "/exploit.py", code);
    folder_.Write("corpus/" + name + "/honest.py", twin);
  }
  void Write(const std::string& name, const std::string& text) const {
    folder_.Write("corpus/" + name, text);
  }

  // `evaluator` as a profile writes it, or empty for no profile.
  Finished Test(const std::string& evaluator, const std::vector<std::string>& more = {},
                const std::string& interrupt_at = {}) const {
    if (!entries_.empty()) folder_.Write("corpus/corpus.json", "[" + entries_ + "]");
    std::vector<std::string> arguments = {"doctor",        "--evaluator",
                                          "--corpus",      (folder_.path() / "corpus").string(),
                                          "--plugin-path", IMAGINED_EVALUATORS};
    if (!evaluator.empty()) {
      arguments.insert(
          arguments.end(),
          {"--profile", folder_.Write("profile.yaml",
                                      "kernel_evolve_profile: 1\nevaluator: " + evaluator + "\n")});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(Program(), arguments, {}, folder_.path(), interrupt_at);
  }

 private:
  TempFolder folder_;
  std::string entries_;
};

constexpr char kWrong[] = R"(, "stage": "correctness", "codes": ["wrong_values"])";

TEST(DoctorEvaluator, TheSimulatorIsHeldToStagesAndCodes) {
  Corpus corpus;
  corpus.Add("offset", kWrong);
  corpus.Add("elsewhere", R"(, "stage": "policy", "codes": ["import"])");
  corpus.Add("let_through", kWrong, WinningKernel());
  corpus.Add("known", kWrong + std::string(R"(, "open": "nobody looks there")"), WinningKernel());
  corpus.Add("dull", kWrong, WrongKernel(), WrongKernel());
  const Finished finished = corpus.Test("", {"--seed", "7"});
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.out,
              AllOf(HasSubstr("'simulator': 5 mechanisms, 10 candidates"), HasSubstr("seed 7"),
                    HasSubstr("offset       1 correctness/wrong_values; twin done/faster"),
                    HasSubstr("elsewhere/exploit.py: no win, but it should end at policy/import, "
                              "not correctness/wrong_values: the output is wrong"),
                    HasSubstr("let_through/exploit.py: an exploit that wins: correct, "),
                    HasSubstr("known/exploit.py: known to get through: nobody looks there"),
                    HasSubstr("dull/honest.py: an honest one that doesn't pass: failed at "
                              "correctness: the output is wrong"),
                    HasSubstr("\n3 of 5 exploits are no win, 4 of 5 honest twins pass; 1 no win "
                              "for another reason than the corpus's (simulator, ")));
  for (const char* line : {"ok ", "1/5", "FAILED ", "5/5"}) {
    EXPECT_THAT(finished.out, HasSubstr(line));
  }

  const Finished one = corpus.Test("{use: simulator}", {"--only", "offset,known", "--json"});
  EXPECT_EQ(one.exit_code, 0) << one.out << one.err;
  EXPECT_THAT(one.err, HasSubstr("1/2")) << "progress leaves standard output to the document";
  const Result<Json> json = Json::Parse(one.out);
  ASSERT_TRUE(json.ok()) << one.out;
  EXPECT_TRUE(json->Flag("ok"));
  EXPECT_EQ(json->Integer("exploits"), 2);
  EXPECT_EQ(json->Integer("pass"), 2);
  const Json& twin = (*json)["mechanisms"].array()[0]["candidates"].array()[0];
  EXPECT_EQ(twin.Text("role"), "twin");
  EXPECT_EQ(twin.Text("code"), "faster");
}

TEST(DoctorEvaluator, OneThatSaysYesToAllIsFoundOut) {
  Corpus corpus;
  corpus.Add("offset", kWrong);
  const Finished finished = corpus.Test("{use: imagined_clock}");
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("offset/exploit.py: an exploit that wins: correct, 2 times"));
  EXPECT_THAT(finished.out, HasSubstr("0 of 1 exploits are no win, 1 of 1 honest twins pass"));
}

TEST(DoctorEvaluator, OneThatSaysNoToAllIsFoundOut) {
  Corpus corpus;
  corpus.Add("offset", kWrong);
  const Finished finished = corpus.Test("{use: imagined_model, with: {says: no_win}}");
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("offset/honest.py: an honest one that doesn't pass"));
  EXPECT_THAT(finished.out, HasSubstr("1 of 1 exploits are no win, 0 of 1 honest twins pass"))
      << "its codes are its own";
}

TEST(DoctorEvaluator, WhatOnlyAModelRefusesIsHonestWhereTimesAreMeasured) {
  Corpus corpus;
  corpus.Add("large", kWrong + std::string(R"(, "measured": "legitimate")"));
  const Finished measured = corpus.Test("{use: imagined_clock}");
  EXPECT_EQ(measured.exit_code, 0) << measured.out << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("0 of 0 exploits are no win, 2 of 2 honest twins pass"));
  const Finished modelled = corpus.Test("{use: imagined_model}");
  EXPECT_EQ(modelled.exit_code, 1);
  EXPECT_THAT(modelled.out, HasSubstr("0 of 1 exploits are no win, 1 of 1 honest twins pass"));
}

TEST(DoctorEvaluator, WhatNeedsAGpuIsLeftOutByAModel) {
  Corpus corpus;
  corpus.Add("clocks", R"(, "gpu": true)");
  EXPECT_THAT(corpus.Test("{use: imagined_model}").out, HasSubstr("0 of 0 exploits are no win"));
  EXPECT_THAT(corpus.Test("{use: imagined_clock}").out, HasSubstr("0 of 1 exploits are no win"));
}

TEST(DoctorEvaluator, NoVerdictIsNoPass) {
  Corpus corpus;
  corpus.Add("offset", kWrong);
  const Finished finished = corpus.Test("{use: imagined_model, with: {says: internal}}");
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("offset/exploit.py: no verdict: there is no oracle here"));
  EXPECT_THAT(finished.out, HasSubstr("0 of 1 exploits are no win, 0 of 1 honest twins pass"));
}

TEST(DoctorEvaluator, WhatAllWouldMeetIsOneSentence) {
  Corpus corpus;
  corpus.Add("offset", kWrong);
  // Found by the trial of a task, or by the first candidates where there is none.
  for (const std::string use : {"imagined_clock", "imagined_model"}) {
    const Finished without = corpus.Test("{use: " + use + ", with: {says: unavailable}}");
    EXPECT_EQ(without.exit_code, 3);
    EXPECT_THAT(without.err, HasSubstr("there is no oracle here"));
    EXPECT_THAT(without.out, Not(HasSubstr("exploits are no win")));
  }
  const Finished wrong = corpus.Test("{use: imagined_clock, with: {say: win}}");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'says'?"));
  const Finished unknown = corpus.Test("{use: imagined_clok}");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'imagined_clock'?"));
  const Finished trial = corpus.Test("{use: imagined_clock, with: {says: no_trial}}");
  EXPECT_EQ(trial.exit_code, 3) << trial.out;
  EXPECT_THAT(trial.err, HasSubstr("there is no oracle for tasks"));
  const Finished python = corpus.Test("", {"--python", "/nowhere/python3"});
  EXPECT_EQ(python.exit_code, 3);
  EXPECT_THAT(python.err, HasSubstr("/nowhere/python3"));
}

TEST(DoctorEvaluator, CtrlCEndsItAtOnce) {
  Corpus corpus;
  corpus.Add("offset", kWrong);
  // The one is stopped while a task is tried, the other while candidates are.
  for (const std::string use : {"imagined_clock", "imagined_model"}) {
    const Finished finished =
        corpus.Test("{use: " + use + ", with: {says: nothing}}", {}, "2 candidates");
    EXPECT_EQ(finished.exit_code, 130) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("interrupted after 0 of 1 mechanisms"));
  }
}

TEST(DoctorEvaluator, AMechanismThatIsNotThereIsNamed) {
  const Finished finished = KernelEvolve({"doctor", "--evaluator", "--only", "zeroes"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, HasSubstr("no such mechanism; did you mean 'zeros'?"));
  for (const char* option : {"--only", "--corpus"}) {
    const Finished alone = KernelEvolve({"doctor", option, "zeros"});
    EXPECT_EQ(alone.exit_code, 2);
    EXPECT_THAT(alone.err, HasSubstr(std::string(option) + " goes with --evaluator"));
  }
}

struct Broken {
  const char* name;
  const char* corpus;  // nullptr: none
  const char* says;
};

class BrokenCorpus : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenCorpus, IsOneSentence) {
  const Corpus corpus;
  corpus.Write("a/honest.py", WinningKernel());
  corpus.Write("a/binary.py", std::string("\xff\x00", 2));
  if (GetParam().corpus != nullptr) corpus.Write("corpus.json", GetParam().corpus);
  const Finished finished = corpus.Test("");
  EXPECT_EQ(finished.exit_code, 2) << finished.out;
  EXPECT_THAT(finished.err, HasSubstr(GetParam().says));
  EXPECT_EQ(finished.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BrokenCorpus,
    ::testing::Values(
        Broken{"Missing", nullptr, "no corpus of candidates: cannot read "},
        Broken{"NoJson", "[{]", "corpus.json is not valid JSON: at line 1, column 3"},
        Broken{"NoList", "{}", "has to hold a list of mechanisms"},
        Broken{"NoMechanism", "[1]", "entry 1 lacks the text 'name'"},
        Broken{"NoTask", R"([{"name": "a"}])", "entry 1 lacks the text 'task'"},
        Broken{"NoExploits", R"([{"name": "a", "task": "task", "honest": "faster"}])",
               "entry 1 ('a') lacks the list 'exploits'"},
        Broken{"NoFile", R"([{"name": "a", "task": "task", "honest": "faster", "exploits": [{}]}])",
               "lacks the text 'file'"},
        Broken{"WrongCodes",
               R"([{"name": "a", "task": "task", "honest": "faster",
                    "exploits": [{"file": "honest.py", "codes": "import"}]}])",
               "the 'codes' of honest.py have to be a list"},
        Broken{"FileMissing",
               R"([{"name": "a", "task": "task", "honest": "faster",
                    "exploits": [{"file": "gone.py"}]}])",
               "entry 1 ('a'): cannot read "},
        Broken{"FileIsBinary",
               R"([{"name": "a", "task": "task", "honest": "faster",
                    "exploits": [{"file": "binary.py"}]}])",
               "binary.py is not UTF-8 text"},
        Broken{"TwinMissing",
               R"([{"name": "b", "task": "task", "honest": "faster", "exploits": []}])",
               "b/honest.py"},
        Broken{"TaskMissing",
               R"([{"name": "a", "task": "tusk", "honest": "faster", "exploits": []}])",
               "tasks/tusk.py"}),
    [](const ::testing::TestParamInfo<Broken>& one) { return one.param.name; });

}  // namespace
}  // namespace kernel_evolve::testing
