#include "core/base/result.hpp"

#include <array>

namespace kernel_evolve {
namespace {

constexpr std::array<const char*, 10> kNames = {
    "timeout", "communication", "rate_limit", "invalid_output", "unavailable",
    "auth",    "validation",    "budget",     "cancelled",      "internal"};

}  // namespace

const char* ErrorClassName(ErrorClass error_class) {
  return kNames[static_cast<size_t>(error_class)];
}

std::optional<ErrorClass> ParseErrorClass(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<ErrorClass>(i);
  }
  return std::nullopt;
}

Error BadInput(std::string message) {
  return {ErrorClass::kValidation, std::move(message), kExitBadInput};
}

Error MissingEnvironment(std::string message) {
  return {ErrorClass::kUnavailable, std::move(message), kExitEnvironment};
}

Error Failed(ErrorClass error_class, std::string message) {
  return {error_class, std::move(message), kExitFailed};
}

}  // namespace kernel_evolve
