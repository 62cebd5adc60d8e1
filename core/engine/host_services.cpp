#include "core/engine/host_services.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace kernel_evolve::internal {

InstanceHost::InstanceHost(std::shared_ptr<RunHandles> run, Json place,
                           std::set<std::string> secrets)
    : run_(std::move(run)), place_(std::move(place)), secrets_(std::move(secrets)) {}

void InstanceHost::Progress(const Json& data) {
  Json event = place_;
  event["event"] = "progress";
  event["data"] = data;
  // The closure keeps what it needs alive; a mailbox whose loop has ended just collects it.
  run_->mailbox->Post([run = std::weak_ptr<RunHandles>(run_), event = std::move(event)] {
    const auto handles = run.lock();
    if (handles && handles->on_progress) handles->on_progress(event);
  });
}

bool InstanceHost::Cancelled() { return run_->cancelled.load(std::memory_order_relaxed); }

int64_t InstanceHost::TimeLeftMs() {
  if (run_->deadline == kNever) return -1;
  const double left = run_->deadline - run_->clock->Monotonic();
  return static_cast<int64_t>(std::max(left, 0.0) * 1000);
}

void InstanceHost::ReportUsage(const Json& usage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  usage_.input_tokens += std::max<int64_t>(usage.Integer("input_tokens"), 0);
  usage_.output_tokens += std::max<int64_t>(usage.Integer("output_tokens"), 0);
  usage_.cost += std::max(usage.Number("cost"), 0.0);
}

std::optional<std::string> InstanceHost::Secret(const std::string& name) {
  if (secrets_.count(name) == 0) return std::nullopt;
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

ReportedUsage InstanceHost::TakeUsage() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(usage_, {});
}

}  // namespace kernel_evolve::internal
