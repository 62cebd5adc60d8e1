// A folder for what an evaluator writes outside of any run.
#pragma once

#include <filesystem>

namespace kernel_evolve::cli {

// A fresh folder of the system's temporary one, gone with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }  // empty: none can be made

 private:
  std::filesystem::path path_;
};

}  // namespace kernel_evolve::cli
