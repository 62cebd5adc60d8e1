#include "core/cli/scratch.hpp"

#include <cstdlib>
#include <string>
#include <system_error>

namespace kernel_evolve::cli {

namespace fs = std::filesystem;

Scratch::Scratch() {
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  std::string pattern = (folder / "kernel-evolve-XXXXXX").string();
  if (!failed && ::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace kernel_evolve::cli
