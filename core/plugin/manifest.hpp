// Manifest: what a plugin says about itself in `<id>.keplugin.json`, so that its library need not
// be loaded to list, check or plan with its types. Pure functions.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/plugin/registry.hpp"

namespace kernel_evolve {

inline constexpr std::string_view kManifestSuffix = ".keplugin.json";

struct Manifest {
  std::string id;
  std::string version;
  std::filesystem::path library;  // absolute, beside the manifest
  std::string hash;               // of the library's content
  std::vector<TypeInfo> types;    // complete: plugin fields filled in
  Json json;                      // all of it, to compare with the loaded library
};

// Reads manifest text strictly: every key known, every type's schema in the subset, every interface
// well-formed, the ABI one that this host offers. `source` is the file named in the sentence (the
// manifest, or the library that was queried); `dir` the folder of the library.
Result<Manifest> ParseManifest(std::string_view text, const std::filesystem::path& source,
                               const std::filesystem::path& dir);

// The `interface` of a type of that kind. The error begins with a place: "interface.ports.in[0]:
// ...".
Status CheckInterface(TypeKind kind, const Json& interface);

}  // namespace kernel_evolve
