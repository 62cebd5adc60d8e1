#include "core/engine/event_loop.hpp"

#include <algorithm>

namespace kernel_evolve {

void Mailbox::Post(std::function<void()> closure) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    closures_.push_back(std::move(closure));
  }
  ready_.notify_one();
}

EventLoop::EventLoop(Clock& clock, int threads)
    : clock_(clock),
      thread_limit_(static_cast<size_t>(std::max(threads, 1))),
      mailbox_(std::make_shared<Mailbox>()) {}

EventLoop::~EventLoop() {
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    pool_closed_ = true;
  }
  pool_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  std::deque<std::function<void()>> dropped;  // declared first: goes after the lock is free
  const std::lock_guard<std::mutex> lock(mailbox_->mutex_);
  mailbox_->closed_ = true;
  dropped.swap(mailbox_->closures_);
}

int64_t EventLoop::After(double seconds, std::function<void()> closure) {
  timers_.emplace(std::make_pair(clock_.Monotonic() + std::max(seconds, 0.0), ++last_timer_),
                  std::move(closure));
  return last_timer_;
}

void EventLoop::CancelTimer(int64_t timer) {
  const auto found = std::find_if(timers_.begin(), timers_.end(),
                                  [timer](const auto& each) { return each.first.second == timer; });
  if (found != timers_.end()) timers_.erase(found);
}

void EventLoop::Blocking(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mailbox_->mutex_);
    ++mailbox_->working_;
  }
  bool hire = false;
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    pool_queue_.push_back(std::move(work));
    hire = idle_ < pool_queue_.size() && threads_.size() < thread_limit_;
  }
  if (hire) threads_.emplace_back([this] { Work(); });
  pool_ready_.notify_one();
}

void EventLoop::Work() {
  std::unique_lock<std::mutex> lock(pool_mutex_);
  while (true) {
    ++idle_;
    pool_ready_.wait(lock, [this] { return pool_closed_ || !pool_queue_.empty(); });
    --idle_;
    if (pool_queue_.empty()) return;
    std::function<void()> work = std::move(pool_queue_.front());
    pool_queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it captured goes before the loop may see the pool quiet
    {
      const std::lock_guard<std::mutex> mail(mailbox_->mutex_);
      --mailbox_->working_;
    }
    mailbox_->ready_.notify_one();
    lock.lock();
  }
}

double EventLoop::NextTimer() const {
  if (timers_.empty()) return kNever;
  return timers_.begin()->first.first;
}

bool EventLoop::RunDueTimer() {
  if (NextTimer() > clock_.Monotonic()) return false;
  std::function<void()> closure = std::move(timers_.begin()->second);
  timers_.erase(timers_.begin());
  closure();
  return true;
}

void EventLoop::Run(const std::function<bool()>& done, const std::function<void()>& poll) {
  Mailbox& mail = *mailbox_;
  std::unique_lock<std::mutex> lock(mail.mutex_);
  while (true) {
    lock.unlock();
    poll();
    while (!done() && RunDueTimer()) {
    }
    if (done()) return;
    lock.lock();
    if (mail.closures_.empty()) {
      const bool was_quiet = mail.working_ == 0;
      clock_.Wait(mail.ready_, lock, NextTimer(), was_quiet, [&mail, was_quiet] {
        return !mail.closures_.empty() || (mail.working_ == 0) != was_quiet;
      });
    }
    if (mail.closures_.empty()) continue;
    std::function<void()> closure = std::move(mail.closures_.front());
    mail.closures_.pop_front();
    lock.unlock();
    closure();
    closure = nullptr;
    lock.lock();
  }
}

}  // namespace kernel_evolve
