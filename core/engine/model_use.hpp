// What one model alias took in a run, for reports and for resuming. A value; not synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/json.hpp"

namespace kernel_evolve {

struct ModelUse {
  int64_t calls = 0;
  int64_t errors = 0;   // calls that ended without a response
  int64_t retries = 0;  // attempts beyond each call's first
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;  // of the input
  double cost = 0;            // in the profile's currency
  double seconds = 0;         // from asking to the answer, summed over calls
  double longest_s = 0;
  std::map<std::string, int64_t> failures;  // attempts that failed, by HTTP status or error class

  // The outcome of one call, with "call" as client.hpp describes it.
  void Add(const Json& outcome, double call_cost);
  Json ToJson() const;
};

}  // namespace kernel_evolve
