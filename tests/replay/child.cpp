#include "tests/replay/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace kernel_evolve::testing {
namespace {

constexpr int kPatienceMs = 60000;

void Must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::abort();
}

}  // namespace

Child::Child(const Options& options) : shared_bytes_(options.shared_bytes) {
  ::signal(SIGPIPE, SIG_IGN);
  int in[2];
  int out[2];
  Must(::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0, "pipe");
  const int memory = ::memfd_create("replay-test", 0);  // inherited
  Must(memory >= 0 && ::ftruncate(memory, static_cast<off_t>(shared_bytes_)) == 0, "memfd_create");
  void* const mapped =
      ::mmap(nullptr, shared_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  Must(mapped != MAP_FAILED, "mmap");
  shared_ = static_cast<unsigned char*>(mapped);

  std::map<std::string, std::string> environment = options.environment;
  const std::filesystem::path driver =
      options.driver.empty() ? std::filesystem::path(FAKE_DRIVER).parent_path() : options.driver;
  environment["LD_LIBRARY_PATH"] = driver.string();
  std::vector<std::string> variables;
  for (char** given = environ; *given != nullptr; ++given) {
    const std::string text = *given;
    if (environment.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<std::string> arguments = {KE_REPLAY, std::to_string(memory),
                                        std::to_string(shared_bytes_),
                                        std::to_string(options.device)};
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& text : arguments) argv.push_back(text.data());
  for (std::string& text : variables) envp.push_back(text.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  Must(::posix_spawn(&pid_, KE_REPLAY, &actions, nullptr, argv.data(), envp.data()) == 0, "spawn");
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  ::close(memory);
  in_ = in[1];
  out_ = out[0];
}

Child::~Child() {
  CloseInput();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    (void)Wait();
  }
  ::close(out_);
  ::munmap(shared_, shared_bytes_);
}

nlohmann::json Child::Read() {
  size_t end = buffered_.find('\n');
  while (end == std::string::npos) {
    pollfd waiting = {out_, POLLIN, 0};
    Must(::poll(&waiting, 1, kPatienceMs) == 1, "the replay does not answer");
    char piece[4096];
    const ssize_t got = ::read(out_, piece, sizeof piece);
    Must(got >= 0, "read");
    if (got == 0) return nullptr;
    buffered_.append(piece, static_cast<size_t>(got));
    end = buffered_.find('\n');
  }
  const std::string line = buffered_.substr(0, end);
  buffered_.erase(0, end + 1);
  return nlohmann::json::parse(line);
}

void Child::Send(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t sent = ::write(in_, text.data() + at, text.size() - at);
    if (sent <= 0) return;  // the process ended; reading says so
    at += static_cast<size_t>(sent);
  }
}

nlohmann::json Child::Ask(const nlohmann::json& request) {
  Send(request.dump());
  return Read();
}

void Child::CloseInput() {
  if (in_ >= 0) ::close(in_);
  in_ = -1;
}

int Child::Wait() {
  int status = 0;
  Must(::waitpid(pid_, &status, 0) == pid_, "waitpid");
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace kernel_evolve::testing
