// A ke_replay process and its two ends: lines over pipes, and the memory that both sides see.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kernel_evolve::testing {

class Child {
 public:
  struct Options {
    std::filesystem::path driver;  // of the library; empty: the fake driver's folder
    std::map<std::string, std::string> environment;  // added to this process's
    uint64_t shared_bytes = uint64_t{1} << 20U;
    int device = 0;
  };

  explicit Child(const Options& options);
  Child() : Child(Options()) {}
  ~Child();  // kills what still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The process's next line, parsed; null at the end of its output.
  nlohmann::json Read();
  // Sends a line as it is.
  void Send(const std::string& line);
  nlohmann::json Ask(const nlohmann::json& request);
  void CloseInput();
  // Waits for the end; the exit status, or minus the signal.
  int Wait();

  unsigned char* shared() { return shared_; }
  uint64_t shared_bytes() const { return shared_bytes_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string buffered_;
  unsigned char* shared_ = nullptr;
  uint64_t shared_bytes_ = 0;
};

}  // namespace kernel_evolve::testing
