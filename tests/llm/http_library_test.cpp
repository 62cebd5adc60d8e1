// libcurl is opened at run time: a computer without it gets a sentence, not a program that cannot
// start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/llm/http_fixture.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kInside = "KERNEL_EVOLVE_TEST_WITHOUT_CURL";
constexpr int kSeen = 42;

// In a program for which the names of libcurl lead to files that are none.
void WithoutLibrary() {
  HttpTransport http;
  const Answer answer = Fetch(http, Get("http://127.0.0.1:1/"));
  EXPECT_EQ(answer.error_class(), "unavailable");
  EXPECT_THAT(answer.error(),
              AllOf(HasSubstr("models over HTTP need libcurl"), HasSubstr("libcurl.so.4"),
                    HasSubstr("install the package libcurl4")));
  EXPECT_THAT(answer.calls, ::testing::ElementsAre("end"));
  std::promise<void> ran;
  http.After(0.001, [&ran] { ran.set_value(); });
  Await(ran.get_future());
  std::_Exit(::testing::Test::HasFailure() ? 1 : kSeen);
}

TEST(HttpLibrary, MissingIsOneSentence) {
  if (std::getenv(kInside) != nullptr) WithoutLibrary();
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "http_without_curl";
  std::filesystem::create_directories(folder);
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    std::ofstream(folder / name) << "no library\n";
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = std::string(kInside) + "=1 LD_LIBRARY_PATH='" + folder.string() +
                              "' '" + self + "' --gtest_filter=HttpLibrary.MissingIsOneSentence";
  const int status = std::system(command.c_str());
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kSeen);
}

}  // namespace
}  // namespace kernel_evolve::testing
