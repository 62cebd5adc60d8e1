#include "core/plugin/child_query.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/plugin/handshake.hpp"

namespace kernel_evolve {
namespace {

void WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    done += static_cast<size_t>(wrote);
  }
}

// Runs in the child. The first byte says which of the two follows.
std::string Ask(const std::string& path, const std::string& hash) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "R" + NotLoadable(path, ::dlerror());
  void* symbol = ::dlsym(library, "ke_plugin_query");
  if (symbol == nullptr) return std::string("R") + kNoQuery;
  const ke_plugin* plugin =
      reinterpret_cast<ke_plugin_query_fn>(symbol)(KE_ABI_MAJOR, KE_ABI_MINOR);
  std::string refusal = HandshakeRefusal(plugin);
  if (!refusal.empty()) return "R" + refusal;
  return "M" + ManifestText(*plugin, path.substr(path.rfind('/') + 1), hash);
}

// noexcept: what a static constructor throws must not unwind through the loader into the caller's
// handlers, or the child would go on as a second copy of the caller.
[[noreturn]] void RunChild(int out, const std::string& path, const std::string& hash) noexcept {
  ::setpgid(0, 0);
  const struct rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // A crash is to be a signal, whatever handlers the parent has.
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(number, SIG_DFL);
  WriteAll(out, Ask(path, hash));
  ::_exit(0);
}

bool ReadUntilEnd(int fd, std::chrono::milliseconds limit, std::string* out) {
  const auto end = std::chrono::steady_clock::now() + limit;
  char buffer[4096];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    struct pollfd ready = {fd, POLLIN, 0};
    const int got = left.count() <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left.count()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    const ssize_t bytes = ::read(fd, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    out->append(buffer, static_cast<size_t>(bytes));
  }
}

}  // namespace

ChildAnswer QueryInChild(const ChildQuery& query) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {"", std::string("not asked: ") + std::strerror(errno)};
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return {"", std::string("could not be queried in a child process: ") + std::strerror(errno)};
  }
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_RDWR);
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(nowhere, STDOUT_FILENO);
    if (query.quiet) ::dup2(nowhere, STDERR_FILENO);
    RunChild(ends[1], query.library.string(), query.hash);
  }
  ::close(ends[1]);
  std::string answer;
  const bool in_time = ReadUntilEnd(ends[0], query.limit, &answer);
  ::close(ends[0]);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return {"", "did not answer ke_plugin_query within " + std::to_string(query.limit.count()) +
                    " ms; it must return at once"};
  }
  if (WIFSIGNALED(status)) {
    return {"", "crashed while it was queried (signal " + std::to_string(WTERMSIG(status)) + ", " +
                    ::strsignal(WTERMSIG(status)) +
                    "); look at its static constructors and its ke_plugin_query"};
  }
  if (answer.empty()) {
    return {"", "ended the process that queried it; look at its static constructors"};
  }
  if (answer[0] == 'M') return {answer.substr(1), ""};
  return {"", answer.substr(1)};
}

}  // namespace kernel_evolve
