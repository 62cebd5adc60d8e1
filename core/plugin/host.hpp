// The one place that loads a plugin's library into this process.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.hpp"
#include "kernel_evolve/abi.h"

namespace kernel_evolve {

// Loads the library (once; never unloaded), asks for its descriptor and shakes hands. The
// descriptor lives as long as the process. `expected_hash` is the manifest's: another content is
// refused before any of its code runs. Errors are class unavailable, one sentence that begins with
// the path. Thread-safe.
Result<const ke_plugin*> LoadPlugin(const std::filesystem::path& library,
                                    const std::string& expected_hash);

// "<path> <what>" as an error of the environment.
Error Refused(const std::filesystem::path& path, const std::string& what);

// What follows the path when library and manifest tell different stories.
inline constexpr char kStaleManifest[] =
    "is not the library that its manifest describes; build the plugin again, or copy both files "
    "together";

}  // namespace kernel_evolve
