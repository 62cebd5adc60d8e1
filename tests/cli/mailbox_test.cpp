// A whole run whose author is a person: the test reads the letters and puts the answers beside
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "tests/cli/process.hpp"
#include "tests/cli/small_task.hpp"

namespace kernel_evolve::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kAnalysis[] = R"({"tool": "submit_analysis", "arguments": {
    "analysis": "three pointwise operators", "ideas": ["fuse"], "rewritable": true}})";
constexpr char kLesson[] = R"({"tool": "record_lesson", "arguments": {
    "lesson": "one pass is enough", "next": "go on"}})";
constexpr char kMistake[] = R"({"tool": "submit_kernell", "arguments": {}})";

// Answers a folder's requests on a thread of its own, until told to leave.
class Person {
 public:
  explicit Person(fs::path box) : box_(std::move(box)) {
    fs::create_directories(box_);
    inotify_add_watch(watch_, box_.c_str(), IN_MOVED_TO);  // a whole file is moved to its name
    thread_ = std::thread([this] { Work(); });
  }
  ~Person() { Leave(); }
  Person(const Person&) = delete;
  Person& operator=(const Person&) = delete;

  void Leave() {
    if (!thread_.joinable()) return;
    eventfd_write(leave_, 1);
    thread_.join();
    ::close(watch_);
    ::close(leave_);
  }

  std::vector<std::string> letters;   // what was read, once it has left
  std::vector<std::string> problems;  // what was wrong with an answer

 private:
  void Work() {
    std::array<pollfd, 2> fds = {{{watch_, POLLIN, 0}, {leave_, POLLIN, 0}}};
    while (::poll(fds.data(), fds.size(), -1) > 0 && fds[1].revents == 0) {
      alignas(inotify_event) std::array<char, 4096> buffer{};
      const ssize_t got = ::read(watch_, buffer.data(), buffer.size());
      for (ssize_t at = 0; at < got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        OnFile(event->name);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
  }

  void OnFile(const std::string& name) {
    const std::string number = name.substr(0, name.find('.'));
    if (name.ends_with(".problem.txt")) {
      problems.push_back(*ReadFile(box_ / name));
      Put(number + ".answer.py", "# Fused by hand\n" + WinningKernel());
    }
    if (!name.ends_with(".request.md")) return;
    letters.push_back(*ReadFile(box_ / name));
    const std::string request = *ReadFile(box_ / (number + ".request.json"));
    const auto offers = [&request](const char* tool) {
      return request.find('"' + std::string(tool) + '"') != std::string::npos;
    };
    Put(number + ".answer.json", offers("submit_analysis") ? kAnalysis
                                 : offers("record_lesson") ? kLesson
                                                           : kMistake);
  }

  void Put(const std::string& name, const std::string& text) const {
    const fs::path draft = box_ / "draft";
    std::ofstream(draft, std::ios::binary) << text;
    fs::rename(draft, box_ / name);
  }

  const fs::path box_;
  const int watch_ = inotify_init1(IN_CLOEXEC);
  const int leave_ = eventfd(0, EFD_CLOEXEC);
  std::thread thread_;
};

TEST(MailboxRun, APersonWritesTheKernelThatWins) {
  const TempFolder folder;
  const std::string profile = folder.Write(
      "profile.yaml",
      "kernel_evolve_profile: 1\n"
      "models: {author: {provider: mailbox, model: an expert, poll_s: 0.01, timeout_s: 300}}\n"
      "evaluator: {use: simulator}\n");
  const fs::path run = folder.path() / "run";
  Person person(folder.path() / "mailbox");
  const Finished finished =
      KernelEvolve({"evolve", folder.Write("task.py", kTask), "--profile", profile, "--input",
                    "generations=1", "--seed", "7", "--out", run.string()},
                   {}, folder.path());
  person.Leave();
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("Success: c1 is correct"));
  EXPECT_THAT(finished.err, HasSubstr("author=mailbox"));
  EXPECT_THAT(finished.err, HasSubstr("0001.request.md")) << "says what it waits for";
  EXPECT_THAT(person.letters,
              ElementsAre(HasSubstr("# Request 0001 for an expert"), HasSubstr("`0002.answer.py`"),
                          HasSubstr("record_lesson")));
  EXPECT_THAT(person.problems, ElementsAre(HasSubstr("there is no tool 'submit_kernell'")));

  EXPECT_THAT(
      *ReadFile(run / "best.py"),
      AllOf(HasSubstr("c1, written by KernelEvolve: Fused by hand"), HasSubstr(WinningKernel())));
  const Json report = *Json::Parse(*ReadFile(run / "report.json"));
  EXPECT_EQ(report["usage"].Integer("llm_calls"), 3);
  for (const char* name : {"0001.answer.json", "0002.answer.py", "0002.answer.bad-1.json",
                           "0003.answer.json", "0003.request.md"}) {
    EXPECT_TRUE(fs::exists(folder.path() / "mailbox/done" / name)) << name;
  }
}

}  // namespace
}  // namespace kernel_evolve::testing
