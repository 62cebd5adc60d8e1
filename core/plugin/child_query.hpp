// Asks a library in a child process what it offers: a static constructor may throw, a query may
// crash, and neither must take the caller down.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace kernel_evolve {

// Exactly one of the two is not empty.
struct ChildAnswer {
  std::string manifest;  // JSON text
  std::string refusal;   // what follows "<file> " in a sentence
};

struct ChildQuery {
  std::filesystem::path library;  // absolute
  std::string hash;               // goes into the manifest
  bool quiet = true;              // false: what the library prints on stderr is seen
  std::chrono::milliseconds limit{20000};
};

// Forks: call it while no other thread of the process holds a lock for long.
ChildAnswer QueryInChild(const ChildQuery& query);

}  // namespace kernel_evolve
