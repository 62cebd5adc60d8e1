// Time as a parameter: the engine reads clocks and waits only through this.
#pragma once

#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>

namespace kernel_evolve {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds from an arbitrary moment; never goes back.
  virtual double Monotonic() = 0;
  // Seconds since 1970.
  virtual double Unix() = 0;
  // Waits until `ready`, the moment `until` on the monotonic clock, or a short while has passed,
  // whichever comes first. `quiet`: no thread of the engine is at work, so that nothing of ours can
  // become ready before `until`; a clock of a test may then jump there. `lock` holds the mutex of
  // `condition`; `ready` is called under it.
  virtual void Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                    double until, bool quiet, const std::function<bool()>& ready) = 0;
};

// The machine's clocks. A wait lasts at most 50 ms, so that a flag set by a signal handler is seen.
class SystemClock : public Clock {
 public:
  double Monotonic() override;
  double Unix() override;
  void Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, double until,
            bool quiet, const std::function<bool()>& ready) override;
};

}  // namespace kernel_evolve
