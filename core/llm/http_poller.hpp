// Waits for sockets and for a call from another thread (Linux epoll). Knows nothing of HTTP.
#pragma once

#include <span>
#include <vector>

#include "core/base/result.hpp"

namespace kernel_evolve {

// Wake() from any thread, the rest from one.
class Poller {
 public:
  struct Ready {
    int socket;
    bool in;
    bool out;
    bool failed;
  };

  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Whether the system gave the files it needs; without them Wait() returns within 10 ms.
  bool ok() const { return epoll_ >= 0 && wake_ >= 0; }

  // Ends a Wait(), or the next one.
  void Wake();
  // Begins to watch a socket, or changes what for.
  void Watch(int socket, bool in, bool out);
  void Forget(int socket);
  // What is ready within `milliseconds` (-1: however long it takes); at most 256 at a time. Valid
  // until the next call.
  std::span<const Ready> Wait(int milliseconds);

 private:
  int epoll_;
  int wake_;  // an eventfd
  std::vector<Ready> ready_;
};

}  // namespace kernel_evolve
