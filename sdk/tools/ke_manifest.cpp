// ke_manifest LIBRARY MANIFEST ID: asks a fresh plugin what it offers and writes its manifest.
// Fails, with one sentence, for a plugin that no host would take. A program of the host's, so that
// the build refuses exactly what the host would refuse.
#include <cstdio>
#include <filesystem>
#include <string>

#include "core/base/file.hpp"
#include "core/plugin/child_query.hpp"
#include "core/plugin/library_image.hpp"
#include "core/plugin/manifest.hpp"

namespace kernel_evolve {
namespace {

Error Problem(const std::filesystem::path& library, const std::string& what) {
  return BadInput(library.string() + " " + what);
}

Result<std::string> MakeManifest(const std::filesystem::path& library, const std::string& id) {
  const LibraryImage image = LibraryImage::Read(library);
  if (!image.refusal.empty()) return Problem(library, image.refusal);
  const ChildAnswer answer = QueryInChild({library, image.hash, /*quiet=*/false});
  if (!answer.refusal.empty()) return Problem(library, answer.refusal);
  for (const auto* symbols : {&image.exports, &image.unique}) {
    for (const std::string& symbol : *symbols) {
      if (symbol == "ke_plugin_query") continue;
      return Problem(library, "exports " + symbol +
                                  ", which may collide with another plugin; export only "
                                  "ke_plugin_query (kernel_evolve_add_plugin sees to it)");
    }
  }
  const Result<Manifest> manifest = ParseManifest(answer.manifest, library, library.parent_path());
  if (!manifest.ok()) return manifest.error();
  if (manifest->id == id) return answer.manifest;
  return Problem(library, "calls itself '" + manifest->id + "' but is built as '" + id +
                              "'; use one id in both places");
}

int Run(const char* library, const char* file, const char* id) {
  const Result<std::string> text = MakeManifest(std::filesystem::absolute(library), id);
  const Status wrote = text.ok() ? WriteFileAtomically(file, *text) : Status(text.error());
  if (wrote.ok()) return kExitOk;
  std::fprintf(stderr, "ke_manifest: %s\n", wrote.error().message.c_str());
  return kExitFailed;
}

}  // namespace
}  // namespace kernel_evolve

int main(int argc, char** argv) {
  if (argc == 4) return kernel_evolve::Run(argv[1], argv[2], argv[3]);
  std::fprintf(stderr, "usage: ke_manifest LIBRARY MANIFEST ID\n");
  return kernel_evolve::kExitBadInput;
}
