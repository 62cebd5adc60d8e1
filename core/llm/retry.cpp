#include "core/llm/retry.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <iterator>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

bool RetriedByDefault(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::kRateLimit:
    case ErrorClass::kUnavailable:
    case ErrorClass::kCommunication:
    case ErrorClass::kTimeout:
      return true;
    default:
      return false;
  }
}

// A number in [0, 1) from the bits of `value` (the finaliser of SplitMix64).
double Spread(uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return static_cast<double>((value ^ (value >> 31U)) >> 11U) * 0x1p-53;
}

std::optional<double> ReadNumber(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

// "Wed, 21 Oct 2026 07:28:00 GMT" as seconds since 1970.
std::optional<double> ReadHttpDate(const std::string& text) {
  std::tm date = {};
  const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<double>(::timegm(&date));
}

std::string Seconds(double seconds) { return FormatSeconds(seconds); }

}  // namespace

RetryDecision DecideRetry(const RetryPolicy& policy, const Failure& failure, int attempt,
                          uint64_t salt) {
  RetryDecision decision{std::nullopt, failure.error};
  if (!failure.retry.value_or(RetriedByDefault(failure.error.error_class))) return decision;
  if (attempt >= policy.attempts) {
    if (attempt > 1) {
      decision.error.message += " (" + std::to_string(attempt) + " attempts)";
    }
    return decision;
  }
  const double full = policy.backoff_s * std::exp2(std::min(attempt - 1, 30));
  const double jittered = full * (0.5 + 0.5 * Spread(salt + static_cast<uint64_t>(attempt)));
  if (failure.retry_after_s && *failure.retry_after_s > policy.max_wait_s) {
    decision.error.message += "; it asks to wait " + Seconds(*failure.retry_after_s) +
                              ", longer than retry.max_wait of " + Seconds(policy.max_wait_s);
    return decision;
  }
  decision.wait_s =
      failure.retry_after_s ? *failure.retry_after_s : std::min(jittered, policy.max_wait_s);
  return decision;
}

std::optional<double> RetryAfter(const std::vector<std::pair<std::string, std::string>>& headers,
                                 double now_unix_s) {
  std::optional<double> seconds;
  for (const auto& [name, value] : headers) {
    const std::string text(Trim(value));
    if (name == "retry-after-ms") {
      if (const auto ms = ReadNumber(text)) return *ms / 1000;
    } else if (name == "retry-after") {
      seconds = ReadNumber(text);
      if (const auto date = ReadHttpDate(text)) seconds = std::max(*date - now_unix_s, 0.0);
    }
  }
  return seconds;
}

}  // namespace kernel_evolve
