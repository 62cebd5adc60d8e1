// Who may call an endpoint now: concurrency and rate, per endpoint, first come first served. Time
// is a parameter; not synchronised.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace kernel_evolve {

struct EndpointLimits {
  int concurrency = 16;            // calls in flight
  double requests_per_minute = 0;  // 0: no limit
};

class Limiter {
 public:
  // A call wants to begin. A ticket waits once at a time.
  void Enqueue(const std::string& endpoint, int64_t ticket, const EndpointLimits& limits);
  // The tickets that begin now, in order. `next_s` becomes the time at which asking again may help;
  // infinity when only a Release can.
  std::vector<int64_t> Admit(double now_s, double* next_s);
  // An admitted call has ended.
  void Release(const std::string& endpoint);
  // A waiting call is not wanted any more; false when it does not wait.
  bool Remove(const std::string& endpoint, int64_t ticket);
  // The endpoint asked everyone to wait.
  void Pause(const std::string& endpoint, double until_s);

 private:
  struct Waiting {
    int64_t ticket;
    EndpointLimits limits;
  };
  struct Endpoint {
    std::deque<Waiting> queue;
    int in_flight = 0;
    double paused_until_s = 0;
    double last_start_s = -std::numeric_limits<double>::infinity();
  };
  std::map<std::string, Endpoint> endpoints_;
};

}  // namespace kernel_evolve
