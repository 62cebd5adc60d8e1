// Supervisor: the life of the zygote's process and of the calls that are open, driven by one
// thread. Private to core/worker; worker.hpp is the interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/worker/process.hpp"
#include "core/worker/worker.hpp"

namespace kernel_evolve {

// Everything here belongs to the worker's thread, but for what its owner hands in through the
// methods, on that same thread. Callbacks are called from within; they may come back to the
// Worker's queue, never into this object.
class Supervisor {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Supervisor(const WorkerOptions& options) : options_(options) {}

  void Add(int64_t id, WorkerCall call, Worker::Done done, Worker::Progress progress);
  void Cancel(int64_t id);
  void CloseSession(const std::string& session);

  // Waits for the process, the deadlines or `wake_fd` (readable: return), then handles what came.
  void Turn(int wake_fd);

  // Ends every call as cancelled, then the process: asked first, killed when it does not listen.
  void Shutdown();

  // The ready message of the running process, or null. `changed` since the last call.
  const Json& ready() const { return ready_; }

 private:
  struct OpenCall {
    WorkerCall call;  // emptied of its request once written
    Worker::Done done;
    Worker::Progress progress;
    bool written = false;
    std::optional<Clock::time_point> due;  // when the process itself is taken for dead
  };
  enum class State { kDown, kStarting, kReady };

  void StartProcess();
  void WriteCalls();
  void Write(const Json& message);
  void StartClock(OpenCall* open) const;
  void StartNextClock(const std::string& session, int64_t finished);

  int WaitMs() const;
  void OnWritable();
  void OnOutput();
  void OnErrors();
  void OnTime();
  void OnLine(std::string_view line);
  void OnReady(Json message);
  void OnResult(int64_t id, const Json& message);
  void OnError(int64_t id, const Json& message);
  void OnExit();

  void Finish(int64_t id, Result<WorkerReply> reply);
  void FailAll(const Error& error);
  // Kills the process and fails every open call.
  void GiveUp(const Error& error);
  void StopProcess();
  // Reads and drops what the process still says, until it has closed both streams or time is up.
  bool DrainUntil(Clock::time_point end);
  std::string LastWords() const;
  void Reset();

  const WorkerOptions options_;
  State state_ = State::kDown;
  Process process_;
  Clock::time_point start_due_;
  Json ready_;
  std::string unsent_;    // for the process's stdin
  size_t sent_ = 0;       // of unsent_
  std::string received_;  // from its stdout, no whole line in it
  std::string errors_;    // the end of its stderr
  std::map<int64_t, OpenCall> open_;
  std::map<std::string, std::deque<int64_t>> sessions_;  // open calls, the oldest first
};

}  // namespace kernel_evolve
