// Which Python runs the worker, and what it has installed.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.hpp"

namespace kernel_evolve {

// The interpreter, in this order: `wanted` (from --python; a path or a name in PATH, may be empty),
// $KERNEL_EVOLVE_PYTHON, <data>/kernel-evolve/venv/bin/python where <data> is $XDG_DATA_HOME or
// ~/.local/share, python3 in PATH. One that was named but does not exist is an error: no other is
// taken in its place. Reads the environment; no process is started.
Result<std::filesystem::path> FindPython(const std::string& wanted = "");

// What to type where PyTorch is missing.
std::string PythonInstallHint();

struct PythonInfo {
  std::string python;  // "3.11.2"
  // Empty where the package is not installed.
  std::string torch;
  std::string triton;
  std::string numpy;
};

// Asks the interpreter, in a process that ends within `timeout_s`. Versions come from the packages'
// metadata: nothing is imported, so a broken installation shows only when the worker starts.
// Unavailable (exit 3) when the interpreter cannot be run or is older than 3.10.
Result<PythonInfo> ProbePython(const std::filesystem::path& python, double timeout_s = 30);

}  // namespace kernel_evolve
