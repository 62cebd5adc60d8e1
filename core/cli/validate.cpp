// kernel-evolve validate: checks graphs and profiles without loading a plugin or needing a key.
#include <cstdio>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"
#include "core/graph/printer.hpp"
#include "core/graph/profile.hpp"

namespace kernel_evolve::cli {
namespace {

int Run(const Arguments& arguments) {
  const std::string format = arguments.Get("--format", "text");
  if (format != "text" && format != "json") {
    return Fail(BadInput("--format is 'text' or 'json', not '" + format + "'"));
  }
  const Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return Fail(registry.error());
  const graph::NodeTypeCatalog catalog = CatalogOf(*registry);
  const graph::PluginVersions versions = VersionsOf(*registry);
  Json all = Json::Arr();
  size_t bad = 0;
  for (const std::string& wanted : arguments.All("FILE")) {
    const Result<GraphFile> file = FindGraph(wanted);
    if (!file) return Fail(file.error());
    const Result<std::string> text = ReadFile(file->file);
    if (!text) return Fail(text.error());
    std::vector<Diagnostic> diagnostics;
    std::string shown;  // what the loader lets be seen of the text: no secret of a profile
    if (graph::LooksLikeProfile(*text)) {
      graph::LoadedProfile loaded = graph::LoadProfile(file->file);
      diagnostics = std::move(loaded.diagnostics);
      shown = std::move(loaded.source);
    } else {
      graph::LoadedGraph loaded = graph::LoadGraph(file->file, file->root, catalog, &versions);
      diagnostics = std::move(loaded.diagnostics);
      shown = std::move(loaded.source);
    }
    bad += diagnostics.empty() ? 0 : 1;
    if (format == "json") {
      const Json list = graph::DiagnosticsToJson(diagnostics);
      for (const Json& one : list.array()) all.push_back(one);
    } else if (diagnostics.empty()) {
      std::printf("%s: ok\n", wanted.c_str());
    } else {
      for (const Diagnostic& one : diagnostics) {
        std::fputs(FormatDiagnostic(one, shown).c_str(), stderr);
      }
      std::fprintf(stderr, "%s: %zu error%s\n", wanted.c_str(), diagnostics.size(),
                   diagnostics.size() == 1 ? "" : "s");
    }
  }
  if (format == "json") std::printf("%s\n", all.Dump(2).c_str());
  return bad == 0 ? kExitOk : kExitBadInput;
}

const Registration kThis(
    {"validate", "Checks graphs and profiles; every error with line and column",
     WithPluginOptions({{"FILE", "", "Graph or profile files, or graph names", true, true},
                        {"--format", "FORMAT", "text (default) or json"}}),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
