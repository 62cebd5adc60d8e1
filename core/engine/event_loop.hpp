// One thread that does everything in turn, and a few that do what blocks. Closures that are posted
// from anywhere, and timers that are due, run on the thread that calls Run(); nothing else needs a
// lock. Ownership: the loop owns its pool; closures own what they capture.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/clock.hpp"

namespace kernel_evolve {

// Where other threads leave closures for the loop. Shared, so that a thread that outlives the loop
// posts into nothing. Thread-safe.
class Mailbox {
 public:
  void Post(std::function<void()> closure);

 private:
  friend class EventLoop;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> closures_;
  bool closed_ = false;  // the loop is gone
  int working_ = 0;      // closures queued for, or in, the pool
};

class EventLoop {
 public:
  // `clock` outlives the loop. At least one pool thread; they start when first needed.
  EventLoop(Clock& clock, int threads);
  // Waits for work in the pool to return. Closures that were not run are dropped.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  Clock& clock() { return clock_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  // All but Post are for the loop's own thread.
  void Post(std::function<void()> closure) { mailbox_->Post(std::move(closure)); }
  // Runs `closure` once, `seconds` from now. The number is for CancelTimer, which ignores a timer
  // that has run.
  int64_t After(double seconds, std::function<void()> closure);
  void CancelTimer(int64_t timer);
  // Runs `work` on a pool thread. It must post its result itself.
  void Blocking(std::function<void()> work);

  // Until `done`, which is asked after every closure. `poll` is called before each wait, thus at
  // least every 50 ms on the machine's clock.
  void Run(const std::function<bool()>& done, const std::function<void()>& poll);

 private:
  void Work();
  bool RunDueTimer();
  double NextTimer() const;

  Clock& clock_;
  const size_t thread_limit_;
  std::shared_ptr<Mailbox> mailbox_;

  int64_t last_timer_ = 0;
  std::map<std::pair<double, int64_t>, std::function<void()>> timers_;  // (due, number)

  std::mutex pool_mutex_;
  std::condition_variable pool_ready_;
  std::deque<std::function<void()>> pool_queue_;
  bool pool_closed_ = false;
  size_t idle_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace kernel_evolve
