// Process: a child process with pipes on its three streams, in a process group of its own, that the
// kernel kills when the thread that started it ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace kernel_evolve {

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0]: a path, or a name looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", all that the process gets
};

// Owns the process and the three pipes (non-blocking, closed on exec). Move-only; not thread-safe.
// The destructor kills the group and reaps.
class Process {
 public:
  Process() = default;
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  // The error, class unavailable, says why the program cannot be run. Must be called from a thread
  // that outlives the process.
  static Result<Process> Start(const ProcessSpec& spec);

  bool started() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // Descriptors of this end; -1 once closed.
  int in() const { return in_; }
  int out() const { return out_; }
  int err() const { return err_; }
  void CloseIn();
  void CloseOut();
  void CloseErr();

  // To the whole group; nothing when the process has been reaped.
  void Signal(int number) const;
  // The wait status when the process has ended; reaps it.
  std::optional<int> TryWait();
  // Waits without limit. Only after a SIGKILL.
  int Wait();

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
};

// "exited with status 3", "was killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int status);

// What the worker's processes get of this program's environment: where things are, never a secret.
// `launched`: also what launch prefixes such as ssh and srun need.
std::vector<std::string> WorkerEnvironment(bool launched);

// The file that `name` runs: itself when it has a slash, else the first match in PATH.
std::optional<std::string> FindProgram(const std::string& name);

}  // namespace kernel_evolve
