// Which interpreter is taken, and what is said when there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <optional>

#include "core/worker/python.hpp"
#include "tests/worker/harness.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Sets variables for one test; empty text removes one.
class FindPythonTest : public ::testing::Test {
 protected:
  FindPythonTest() {
    Set("KERNEL_EVOLVE_PYTHON", "");
    Set("XDG_DATA_HOME", "");
    Set("HOME", folder_.path() / "home");
    Set("PATH", folder_.path() / "path");
  }
  ~FindPythonTest() override {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  void Set(const std::string& name, const std::string& value) {
    const char* old = getenv(name.c_str());
    before_.try_emplace(name, old != nullptr ? std::optional<std::string>(old) : std::nullopt);
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  fs::path Program(const std::string& relative, const std::string& text = "#!/bin/sh\n") {
    const fs::path path = folder_.path() / relative;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
    return path;
  }
  testing::TemporaryFolder folder_;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(FindPythonTest, TakesTheFirstOfTheOrder) {
  const fs::path last = Program("path/python3");
  EXPECT_EQ(*FindPython(), last);
  const fs::path usual = Program("home/.local/share/kernel-evolve/venv/bin/python");
  EXPECT_EQ(*FindPython(), usual);
  const fs::path data = Program("data/kernel-evolve/venv/bin/python");
  Set("XDG_DATA_HOME", folder_.path() / "data");
  EXPECT_EQ(*FindPython(), data);
  const fs::path named = Program("named");
  Set("KERNEL_EVOLVE_PYTHON", named);
  EXPECT_EQ(*FindPython(), named);
  EXPECT_EQ(*FindPython(last), last);
  EXPECT_EQ(*FindPython("python3"), last);
}

TEST_F(FindPythonTest, OneThatWasNamedIsNotReplacedByAnother) {
  Program("path/python3");
  const auto wanted = FindPython("/nowhere/python");
  ASSERT_FALSE(wanted.ok());
  EXPECT_EQ(wanted.error().exit_code, kExitEnvironment);
  EXPECT_THAT(wanted.error().message, HasSubstr("'/nowhere/python' named by --python"));
  Set("KERNEL_EVOLVE_PYTHON", folder_.path());
  EXPECT_THAT(FindPython().error().message, HasSubstr("named by KERNEL_EVOLVE_PYTHON"));
}

TEST_F(FindPythonTest, WithoutAnySaysWhatToType) {
  const auto none = FindPython();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().exit_code, kExitEnvironment);
  EXPECT_THAT(none.error().message, HasSubstr("python3 -m venv"));
}

TEST_F(FindPythonTest, ProbeOfSomethingElseIsOneSentence) {
  const auto failing = ProbePython(Program("p", "#!/bin/sh\necho oops >&2\nexit 4\n"));
  ASSERT_FALSE(failing.ok());
  EXPECT_THAT(failing.error().message,
              HasSubstr("cannot be used as Python (it exited with status 4: oops)"));
  const auto old = ProbePython(Program("q", "#!/bin/sh\necho '{\"python\":\"3.9.1\"}'\n"));
  ASSERT_FALSE(old.ok());
  EXPECT_THAT(old.error().message, HasSubstr("is Python 3.9.1; 3.10 or newer is needed"));
  EXPECT_FALSE(ProbePython(folder_.path() / "missing").ok());
}

TEST_F(FindPythonTest, ProbeOfOneThatHangsEnds) {
  const auto hanging = ProbePython(Program("p", "#!/bin/sh\nexec /bin/sleep 9999\n"), 0.1);
  ASSERT_FALSE(hanging.ok());
  EXPECT_THAT(hanging.error().message, HasSubstr("did not answer within 0.1 s"));
}

TEST(ProbePythonTest, TellsTheVersions) {
  const auto info = ProbePython(testing::PythonWithTorch());
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_THAT(info->python, ::testing::StartsWith("3."));
  EXPECT_THAT(info->torch, ::testing::ContainsRegex("^[0-9]+\\.[0-9]+"));
  EXPECT_THAT(info->triton, ::testing::ContainsRegex("^[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace kernel_evolve
