// Reads a shared library's file without loading it: is it one, is it whole, what does it export.
// Needed before the loader sees it: that maps a cut-off file and dies on the missing pages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kernel_evolve {

// What Read() found. A value; the rest is empty when there is a refusal.
struct LibraryImage {
  std::string refusal;               // why this is no usable library: what follows "<file> "
  std::string hash;                  // "build-id:<hex>", or "fnv1a:<hex>" of the whole file
  std::vector<std::string> exports;  // symbols that other libraries can see
  std::vector<std::string> unique;   // those that g++ shares between all libraries of a process
  static LibraryImage Read(const std::filesystem::path& path);
};

}  // namespace kernel_evolve
