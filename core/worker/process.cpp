#include "core/worker/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }

  // Above the standard streams, also when this program was started with some of them closed.
  bool Open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
    write_end = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    close(ends[0]);
    close(ends[1]);
    return read_end >= 0 && write_end >= 0;
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec of a program with threads: system calls only, no allocation, no lock.
[[noreturn]] void BecomeProgram(const char* program, char* const* argv, char* const* environment,
                                pid_t parent, int in, int out, int err, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
      dup2(err, STDERR_FILENO) >= 0) {
    constexpr unsigned kCloseRange = 436;
    constexpr unsigned kCloseOnExec = 4;
    syscall(kCloseRange, 3U, ~0U, kCloseOnExec);  // what others in this program left open
    execve(program, argv, environment);
  }
  const int code = errno;
  ssize_t ignored = write(failure, &code, sizeof code);
  (void)ignored;
  _exit(127);
}

void CloseDescriptor(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

bool LooksSecret(std::string_view name) {
  for (std::string_view part : {"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "JWT"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool IsPassed(std::string_view name, bool launched) {
  constexpr std::array kNames = {"PATH",
                                 "HOME",
                                 "TMPDIR",
                                 "LANG",
                                 "TZ",
                                 "LD_LIBRARY_PATH",
                                 "CC",
                                 "CUDA_HOME",
                                 "CUDA_PATH",
                                 "CUDA_VISIBLE_DEVICES",
                                 "CUDA_DEVICE_ORDER",
                                 "TRITON_PTXAS_PATH",
                                 "TRITON_LIBCUDA_PATH"};
  constexpr std::array kLaunchNames = {"USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME",
                                       "XDG_RUNTIME_DIR"};
  if (name.starts_with("LC_")) return true;
  for (std::string_view known : kNames) {
    if (name == known) return true;
  }
  if (!launched) return false;
  for (std::string_view known : kLaunchNames) {
    if (name == known) return true;
  }
  return name.starts_with("SLURM_") && !LooksSecret(name);
}

}  // namespace

Process::~Process() {
  if (pid_ > 0 && !status_) {
    Signal(SIGKILL);
    Wait();
  }
  CloseIn();
  CloseOut();
  CloseErr();
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(err_, other.err_);
  return *this;
}

Result<Process> Process::Start(const ProcessSpec& spec) {
  const std::string& name = spec.argv.front();
  const auto cannot = [&name](int code) {
    return MissingEnvironment("cannot start " + name + ": " + std::strerror(code));
  };
  const std::optional<std::string> program = FindProgram(name);
  if (!program) return cannot(ENOENT);
  Pipe in;
  Pipe out;
  Pipe err;
  Pipe failure;
  if (!in.Open() || !out.Open() || !err.Open() || !failure.Open()) return cannot(errno);
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> environment = Pointers(spec.environment);

  // A signal handler of this program must not run in the copy.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) {
    BecomeProgram(program->c_str(), argv.data(), environment.data(), parent, in.read_end,
                  out.write_end, err.write_end, failure.write_end);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return cannot(fork_error);

  CloseDescriptor(&failure.write_end);
  int code = 0;
  ssize_t length = 0;
  do {
    length = read(failure.read_end, &code, sizeof code);
  } while (length < 0 && errno == EINTR);
  Process process;
  process.pid_ = pid;
  if (length == static_cast<ssize_t>(sizeof code)) {
    process.Wait();
    return cannot(code);
  }
  process.in_ = std::exchange(in.write_end, -1);
  process.out_ = std::exchange(out.read_end, -1);
  process.err_ = std::exchange(err.read_end, -1);
  for (int fd : {process.in_, process.out_, process.err_}) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  return process;
}

void Process::CloseIn() { CloseDescriptor(&in_); }
void Process::CloseOut() { CloseDescriptor(&out_); }
void Process::CloseErr() { CloseDescriptor(&err_); }

void Process::Signal(int number) const {
  if (pid_ > 0 && !status_) kill(-pid_, number);
}

std::optional<int> Process::TryWait() {
  if (pid_ <= 0 || status_) return status_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

int Process::Wait() {
  int status = 0;
  while (pid_ > 0 && !status_) {
    const pid_t got = waitpid(pid_, &status, 0);
    if (got == pid_ || (got < 0 && errno != EINTR)) status_ = status;
  }
  return status_.value_or(0);
}

std::string DescribeWaitStatus(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = sigdescr_np(number);
    return "was killed by signal " + std::to_string(number) + " (" +
           (name != nullptr ? name : "unknown") + ")";
  }
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

std::vector<std::string> WorkerEnvironment(bool launched) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (IsPassed(text.substr(0, text.find('=')), launched)) kept.emplace_back(text);
  }
  // Read when the libraries load: a zygote that has started threads cannot fork safely.
  for (const char* fixed : {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"}) {
    kept.emplace_back(fixed);
  }
  return kept;
}

std::optional<std::string> FindProgram(const std::string& name) {
  const auto runs = [](const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : Split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    if (folder.empty()) continue;  // POSIX means the current folder, which nobody should
    std::string file = folder;
    file.append("/").append(name);
    if (runs(file)) return file;
  }
  return std::nullopt;
}

}  // namespace kernel_evolve
