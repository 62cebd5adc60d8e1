// Secrets on their way out and back: filled into headers and addresses just before sending, and
// struck out of whatever comes back, since an error body may echo them. A value; share as const.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve {

class Secrets {
 public:
  // Name of the environment variable -> value.
  explicit Secrets(std::map<std::string, std::string> values = {});

  // The text with every `${env:NAME}` of a known name filled in. Class auth for another name: it
  // was not declared, or is not set.
  Result<std::string> Expand(const std::string& text) const;

  // The text with each secret replaced by "[NAME]". Values shorter than `at_least` bytes stay: in
  // text that a model wrote, a short one is more likely a coincidence.
  std::string StrikeText(std::string text, size_t at_least) const;
  // In every string of a value, member names included.
  Json Strike(const Json& value, size_t at_least) const;

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> longest_first_;  // names: one secret may be part of another
};

}  // namespace kernel_evolve
