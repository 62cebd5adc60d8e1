// Worker: the supervisor of one Python process (the zygote) that has PyTorch and Triton loaded and
// runs every call in a forked, jailed child. It speaks sdk/worker/PROTOCOL.md over stdio.
//
// The process starts with the first call and is started anew by the first call after it died. All
// that was started is killed and reaped when the Worker is destroyed; when this program itself is
// killed, the process ends by itself (its stdin closes and its parent is gone).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve {

struct WorkerOptions {
  // Words put before the Python command, for example {"srun", "--gres=gpu:1"}; empty: run it here.
  std::vector<std::string> launch_prefix;
  std::filesystem::path python;        // see FindPython
  std::filesystem::path worker_dir;    // the folder that holds the package kernel_evolve_worker
  std::filesystem::path jail_library;  // libke_jail.so
  double start_timeout_s = 120;        // importing PyTorch from a cold disk is slow

  // How far a child is walled off: "auto" takes the strongest level that the machine allows,
  // "namespaces" refuses to start with less, "subreaper" does without namespaces.
  std::string isolation = "auto";
  // What is left to the zygote to end a call after its deadline, or itself when it is asked to;
  // then it is killed.
  double grace_s = 15;
};

// One call of `function(request, context)` in `module`, a Python module searched in `path` first
// and in the worker's own folder after it.
struct WorkerCall {
  std::string module;
  std::string function;
  // Empty: a fresh child serves this call alone. Else: the child of that name serves all calls with
  // this name one after the other and keeps its state; for trusted code only.
  std::string session;
  std::vector<std::filesystem::path> path;
  Json request;                   // an object
  double deadline_s = 60;         // counts from the moment the child gets the call
  std::filesystem::path scratch;  // absolute; the only folder the child may write, or empty
  Json limits;                    // {"memory_mb": n, "output_kb": n, "processes": n, "tmp_mb": n}
  // More folders and files that the child must see although they lie in a hidden place (the home
  // folder, /tmp); what it sees is read-only.
  std::vector<std::filesystem::path> readable;
};

struct WorkerReply {
  Json value;           // what the function returned, an object
  Json isolation;       // {"level": "namespaces", "network": "none", ...}: PROTOCOL.md
  double seconds = 0;   // from the fork, or the hand-over to a session, to the answer
  int64_t peak_kb = 0;  // peak resident memory of the child, in KiB
};

class Worker {
 public:
  // Exactly one Done per call, on the worker's own thread; it may make and cancel further calls,
  // but must not destroy the Worker. Error classes: timeout, cancelled, validation, invalid_output,
  // internal, and unavailable (exit 3) when Python, PyTorch or Triton is missing.
  using Done = std::function<void(Result<WorkerReply>)>;
  // What the function told through context.progress, before Done, on the same thread.
  using Progress = std::function<void(const Json&)>;

  explicit Worker(WorkerOptions options);
  // Every call still open ends as cancelled before this returns. Not from a callback.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Queues the call and returns its number (from 1) at once. Thread-safe.
  int64_t Call(WorkerCall call, Done done, Progress progress = {});

  // Ends the call as cancelled unless it has ended; an unknown number is ignored. Thread-safe.
  void Cancel(int64_t id);

  // Ends a session's child; its next call starts a new one. Thread-safe.
  void CloseSession(const std::string& session);

  // What the running process said of itself, {"python","torch","triton","pid","isolation"}, or null
  // while none has come up. Thread-safe.
  Json ready_info() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernel_evolve
