// Result<T>: a value or an Error. Used for everything that a user, a model or the outside world can
// cause; a programmer's mistake is an assert. No exception crosses a layer.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace kernel_evolve {

// The closed set of error classes. A graph's `retry` and a node's error speak of these by name.
enum class ErrorClass {
  kTimeout,
  kCommunication,
  kRateLimit,
  kInvalidOutput,
  kUnavailable,
  kAuth,
  kValidation,
  kBudget,
  kCancelled,
  kInternal,
};

// "timeout", "communication", ...
const char* ErrorClassName(ErrorClass error_class);
// The inverse; nothing for a name outside the set.
std::optional<ErrorClass> ParseErrorClass(const std::string& name);

// What the process exits with when this error ends it.
enum ExitCode {
  kExitOk = 0,
  kExitFailed = 1,       // the job ran and failed
  kExitBadInput = 2,     // the user's input is wrong
  kExitEnvironment = 3,  // the environment is missing something, or the run is parked
  kExitInterrupted = 130,
};

struct Error {
  ErrorClass error_class = ErrorClass::kInternal;
  std::string message;  // one sentence: what, where, what to do
  ExitCode exit_code = kExitFailed;
};

Error BadInput(std::string message);            // kValidation, exit 2
Error MissingEnvironment(std::string message);  // kUnavailable, exit 3
Error Failed(ErrorClass error_class, std::string message);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : data_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return data_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& {
    assert(ok());
    return std::get<0>(data_);
  }
  T& value() & {
    assert(ok());
    return std::get<0>(data_);
  }
  T&& value() && {
    assert(ok());
    return std::get<0>(std::move(data_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Error& error() const {
    assert(!ok());
    return std::get<1>(data_);
  }

 private:
  std::variant<T, Error> data_;
};

// The outcome of something that yields no value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    assert(error_);
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace kernel_evolve
