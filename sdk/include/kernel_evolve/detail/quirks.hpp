// What a service does otherwise than its form says, in short phrases for the user. Part of the
// codec helpers.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kernel_evolve/plugin.hpp"

namespace kernel_evolve::sdk::detail {

// Each phrase once, in the order in which they were first seen.
class Quirks {
 public:
  void Note(std::string_view phrase) {
    const auto same = [phrase](const std::string& seen) { return seen == phrase; };
    if (std::none_of(seen_.begin(), seen_.end(), same)) seen_.emplace_back(phrase);
  }
  void NoteIf(bool seen, std::string_view phrase) {
    if (seen) Note(phrase);
  }

  // A response without quirks has no such member.
  void AddTo(json* response) const {
    if (!seen_.empty()) (*response)["quirks"] = seen_;
  }

 private:
  std::vector<std::string> seen_;
};

}  // namespace kernel_evolve::sdk::detail
