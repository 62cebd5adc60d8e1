// What `doctor` prints: one finding a line, and whether something needed is missing.
#pragma once

#include <cstdio>
#include <string>

#include "core/cli/command.hpp"

namespace kernel_evolve::cli {

class Findings {
 public:
  void Good(const std::string& what, const std::string& detail) { Line("ok", what, detail); }
  void Missing(const std::string& what, const std::string& remedy) {
    Line("MISSING", what, remedy);
    complete_ = false;
  }
  // Not needed, or not known to be wrong.
  void Absent(const std::string& what, const std::string& detail) { Line("-", what, detail); }
  bool complete() const { return complete_; }

 private:
  static void Line(const char* mark, const std::string& what, const std::string& detail) {
    std::printf("%-8s %-12s %s\n", mark, what.c_str(), detail.c_str());
    std::fflush(stdout);
  }
  bool complete_ = true;
};

// Calls each model of the profile that --profile names once, with a tiny tool, and says whether
// tools, streaming and usage work.
void CheckModels(const Arguments& arguments, Findings* findings);

}  // namespace kernel_evolve::cli
