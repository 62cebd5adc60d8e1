// Whether and when a failed call is made again. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace kernel_evolve {

struct RetryPolicy {
  int attempts = 5;         // in all; 1: never again
  double backoff_s = 1;     // before the second attempt; doubles, with jitter down to the half
  double max_wait_s = 120;  // a longer wait, also one that the service asks for, ends the call
};

// How an attempt failed.
struct Failure {
  Error error;
  std::optional<bool> retry;            // what the codec knows; else the class decides
  std::optional<double> retry_after_s;  // what the service asks for
};

struct RetryDecision {
  std::optional<double> wait_s;  // nothing: give up with `error`
  Error error;
};

// `attempt` counts from 1; `salt` spreads the waits of many calls.
RetryDecision DecideRetry(const RetryPolicy& policy, const Failure& failure, int attempt,
                          uint64_t salt);

// `retry-after-ms`, else `retry-after` as seconds or as an HTTP date; names are in lower case.
// Nothing when neither is there or readable. `now_unix_s` is for the date.
std::optional<double> RetryAfter(const std::vector<std::pair<std::string, std::string>>& headers,
                                 double now_unix_s);

}  // namespace kernel_evolve
