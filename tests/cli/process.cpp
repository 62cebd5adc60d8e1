#include "tests/cli/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace kernel_evolve::testing {
namespace {

namespace fs = std::filesystem;

std::array<int, 2> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  return ends;
}

// Reads both pipes until both are closed. `on_read` is called after each piece.
void Drain(int out_fd, int err_fd, Finished* finished, const std::function<void()>& on_read) {
  std::array<pollfd, 2> fds = {{{out_fd, POLLIN, 0}, {err_fd, POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&finished->out, &finished->err};
  std::array<char, 65536> buffer{};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t got = ::read(fds[i].fd, buffer.data(), buffer.size());
      if (got > 0) {
        texts[i]->append(buffer.data(), static_cast<size_t>(got));
        on_read();
      } else {
        ::close(fds[i].fd);
        fds[i].fd = -1;
      }
    }
  }
}

}  // namespace

fs::path Program() { return fs::path(KERNEL_EVOLVE_BUILD_DIR) / "bin/kernel-evolve"; }

Finished Run(const fs::path& program, const std::vector<std::string>& arguments,
             const std::map<std::string, std::string>& environment, const fs::path& folder,
             const std::string& interrupt_at) {
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const std::array<int, 2> out = MakePipe();
  const std::array<int, 2> err = MakePipe();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    for (const auto& [name, value] : environment) {
      if (value.empty()) {
        ::unsetenv(name.c_str());
      } else {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Finished finished;
  bool waiting = !interrupt_at.empty();
  Drain(out[0], err[0], &finished, [&] {
    if (!waiting || finished.out.find(interrupt_at) == std::string::npos) return;
    waiting = false;
    ::kill(child, SIGINT);
  });
  int status = 0;
  ::waitpid(child, &status, 0);
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "kernel-evolve-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempFolder::Write(const std::string& name, const std::string& text) const {
  const fs::path file = path_ / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return file.string();
}

}  // namespace kernel_evolve::testing
