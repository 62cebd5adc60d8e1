#include "core/engine/clock.hpp"

#include <algorithm>
#include <chrono>

namespace kernel_evolve {
namespace {

constexpr double kLongestWait = 0.05;

}  // namespace

double SystemClock::Monotonic() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double SystemClock::Unix() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void SystemClock::Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                       double until, bool, const std::function<bool()>& ready) {
  const double seconds = std::clamp(until - Monotonic(), 0.0, kLongestWait);
  // The wait is short, so a clock that is set meanwhile does no harm; thread sanitizers know this
  // form of waiting and not the one on the steady clock.
  const auto end = std::chrono::system_clock::now() +
                   std::chrono::duration_cast<std::chrono::system_clock::duration>(
                       std::chrono::duration<double>(seconds));
  condition.wait_until(lock, end, ready);
}

}  // namespace kernel_evolve
