#include "core/worker/pool.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kernel_evolve {

WorkerPool::WorkerPool(std::vector<WorkerOptions> workers) {
  assert(!workers.empty());
  for (WorkerOptions& options : workers) {
    workers_.push_back(std::make_unique<Worker>(std::move(options)));
  }
}

WorkerPool::WorkerPool(WorkerOptions worker)
    : WorkerPool(std::vector<WorkerOptions>{std::move(worker)}) {}

WorkerPool::~WorkerPool() = default;

int64_t WorkerPool::Call(WorkerCall call, Worker::Done done, Worker::Progress progress) {
  int64_t id = 0;
  size_t chosen = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++last_id_;
    chosen = IdlestFor(call.session);
    open_[id] = {chosen, call.session};
  }
  const int64_t there = workers_[chosen]->Call(
      std::move(call),
      [this, id, done = std::move(done)](Result<WorkerReply> reply) {
        {
          const std::lock_guard lock(mutex_);
          open_.erase(id);
        }
        done(std::move(reply));
      },
      std::move(progress));
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return id;  // answered already
  found->second.id = there;
  if (found->second.cancelled) workers_[chosen]->Cancel(there);
  return id;
}

void WorkerPool::Cancel(int64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  found->second.cancelled = true;
  if (found->second.id != 0) workers_[found->second.worker]->Cancel(found->second.id);
}

size_t WorkerPool::IdlestFor(const std::string& session) const {
  std::vector<int> open(workers_.size());
  for (const auto& [unused, call] : open_) {
    if (call.session == session) ++open[call.worker];
  }
  return static_cast<size_t>(std::min_element(open.begin(), open.end()) - open.begin());
}

}  // namespace kernel_evolve
