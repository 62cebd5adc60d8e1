// What a running instance may ask of the host. Internal to engine/.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "core/engine/clock.hpp"
#include "core/engine/event_loop.hpp"
#include "core/plugin/registry.hpp"

namespace kernel_evolve::internal {

// What the instances of one run share. Outlives them.
struct RunHandles {
  Clock* clock = nullptr;
  std::shared_ptr<Mailbox> mailbox;
  std::atomic<bool> cancelled{false};
  double deadline = kNever;                            // on the monotonic clock; set before any run
  std::function<void(const Json& event)> on_progress;  // called on the loop's thread
};

// Usage that an instance reported, as counts from 0 up.
struct ReportedUsage {
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  double cost = 0;
};

// Thread-safe.
class InstanceHost : public HostServices {
 public:
  // `place` is copied into every progress event: {"node", "visit"}. `secrets` are the names of
  // environment variables that this instance may read.
  InstanceHost(std::shared_ptr<RunHandles> run, Json place, std::set<std::string> secrets);

  void Progress(const Json& data) override;
  bool Cancelled() override;
  int64_t TimeLeftMs() override;
  void ReportUsage(const Json& usage) override;
  std::optional<std::string> Secret(const std::string& name) override;

  // What was reported since the last call.
  ReportedUsage TakeUsage();

 private:
  std::shared_ptr<RunHandles> run_;
  const Json place_;
  const std::set<std::string> secrets_;
  std::mutex mutex_;
  ReportedUsage usage_;
};

}  // namespace kernel_evolve::internal
