// Whole-file reads and crash-safe writes. Errors name the path and the cause.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace kernel_evolve {

// Reads a regular file of at most `max_bytes`. A folder, a device or a larger file is refused.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes = 64U << 20U);

// Writes beside the target and renames over it: readers see the old text or the new one, never
// half. A full disk is class `unavailable`, exit 3.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view text);

}  // namespace kernel_evolve
