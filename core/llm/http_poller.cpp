#include "core/llm/http_poller.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

namespace kernel_evolve {

Poller::Poller()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (ok()) Watch(wake_, true, false);
}

Poller::~Poller() {
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
}

void Poller::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full: then the wait ends anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

void Poller::Watch(int socket, bool in, bool out) {
  epoll_event event{};
  event.events = (in ? uint32_t{EPOLLIN} : 0U) | (out ? uint32_t{EPOLLOUT} : 0U);
  event.data.fd = socket;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event) == 0 || errno != ENOENT) return;
  (void)epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
}

void Poller::Forget(int socket) { (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr); }

std::span<const Poller::Ready> Poller::Wait(int milliseconds) {
  ready_.clear();
  if (!ok()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return ready_;
  }
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_, events.data(), events.size(), milliseconds);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.fd == wake_) {
      uint64_t calls = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_, &calls, sizeof calls);
      continue;
    }
    ready_.push_back({event.data.fd, (event.events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) != 0,
                      (event.events & EPOLLOUT) != 0, (event.events & EPOLLERR) != 0});
  }
  return ready_;
}

}  // namespace kernel_evolve
