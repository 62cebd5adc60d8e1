#include "core/llm/limiter.hpp"

#include <algorithm>

namespace kernel_evolve {

void Limiter::Enqueue(const std::string& endpoint, int64_t ticket, const EndpointLimits& limits) {
  endpoints_[endpoint].queue.push_back({ticket, limits});
}

std::vector<int64_t> Limiter::Admit(double now_s, double* next_s) {
  *next_s = std::numeric_limits<double>::infinity();
  std::vector<int64_t> admitted;
  for (auto& [name, endpoint] : endpoints_) {
    while (!endpoint.queue.empty()) {
      const Waiting& first = endpoint.queue.front();
      if (endpoint.in_flight >= first.limits.concurrency) break;
      double allowed_s = endpoint.paused_until_s;
      // Even spacing, so that a minute's allowance is never spent in one burst.
      if (first.limits.requests_per_minute > 0) {
        allowed_s =
            std::max(allowed_s, endpoint.last_start_s + 60.0 / first.limits.requests_per_minute);
      }
      if (allowed_s > now_s) {
        *next_s = std::min(*next_s, allowed_s);
        break;
      }
      admitted.push_back(first.ticket);
      endpoint.queue.pop_front();
      endpoint.last_start_s = now_s;
      ++endpoint.in_flight;
    }
  }
  return admitted;
}

void Limiter::Release(const std::string& endpoint) { --endpoints_[endpoint].in_flight; }

bool Limiter::Remove(const std::string& endpoint, int64_t ticket) {
  std::deque<Waiting>& queue = endpoints_[endpoint].queue;
  const auto found = std::find_if(queue.begin(), queue.end(),
                                  [ticket](const Waiting& w) { return w.ticket == ticket; });
  if (found == queue.end()) return false;
  queue.erase(found);
  return true;
}

void Limiter::Pause(const std::string& endpoint, double until_s) {
  double& paused = endpoints_[endpoint].paused_until_s;
  paused = std::max(paused, until_s);
}

}  // namespace kernel_evolve
