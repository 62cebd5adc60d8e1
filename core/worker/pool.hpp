// WorkerPool: one worker or several behind one queue, such as one per GPU. A call goes to the
// worker with the fewest calls of its kind open, the first of equal ones; calls of one session are
// one kind, so a session has a child in each worker that is needed to serve it, and what it keeps
// is a cache. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/worker/worker.hpp"

namespace kernel_evolve {

class WorkerPool {
 public:
  // One worker for each element, at least one. Processes start with their first call.
  explicit WorkerPool(std::vector<WorkerOptions> workers);
  explicit WorkerPool(WorkerOptions worker);
  // Every call still open ends as cancelled before this returns. Not from a callback.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // As Worker's; the numbers are the pool's own.
  int64_t Call(WorkerCall call, Worker::Done done, Worker::Progress progress = {});
  void Cancel(int64_t id);

 private:
  struct OpenCall {
    size_t worker;
    std::string session;
    int64_t id = 0;  // the worker's; 0 until it is known
    bool cancelled = false;
  };

  size_t IdlestFor(const std::string& session) const;

  std::mutex mutex_;
  int64_t last_id_ = 0;
  std::map<int64_t, OpenCall> open_;
  std::vector<std::unique_ptr<Worker>>
      workers_;  // last: ending them ends calls, which uses all above
};

}  // namespace kernel_evolve
