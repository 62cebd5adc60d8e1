// Runs the built program as a user would, and captures what it prints.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kernel_evolve::testing {

struct Finished {
  int exit_code = -1;  // 128 + n when signal n ended it
  std::string out;
  std::string err;
};

// build/bin/kernel-evolve of this build tree.
std::filesystem::path Program();

// Runs `program` with `arguments` in `folder` (the current one when empty). `environment` adds to
// or replaces variables; an empty value removes one. Standard input is empty. With `interrupt_at`
// it gets one SIGINT, as soon as its standard output holds that text.
Finished Run(const std::filesystem::path& program, const std::vector<std::string>& arguments,
             const std::map<std::string, std::string>& environment = {},
             const std::filesystem::path& folder = {}, const std::string& interrupt_at = {});

inline Finished KernelEvolve(const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment = {},
                             const std::filesystem::path& folder = {}) {
  return Run(Program(), arguments, environment, folder);
}

// A fresh folder under the test's temporary folder, removed with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  // Writes a file below the folder and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace kernel_evolve::testing
