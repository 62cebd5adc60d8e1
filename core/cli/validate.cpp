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
  Json all = Json::Arr();
  size_t bad = 0;
  for (const std::string& wanted : arguments.All("FILE")) {
    const Result<GraphFile> file = FindGraph(wanted);
    if (!file) return Fail(file.error());
    const Result<std::string> text = ReadFile(file->file);
    if (!text) return Fail(text.error());
    std::vector<Diagnostic> diagnostics;
    if (graph::LooksLikeProfile(*text)) {
      diagnostics = graph::LoadProfile(file->file).diagnostics;
    } else {
      diagnostics = graph::LoadGraph(file->file, file->root, catalog).diagnostics;
    }
    bad += diagnostics.empty() ? 0 : 1;
    if (format == "json") {
      const Json list = graph::DiagnosticsToJson(diagnostics);
      for (const Json& one : list.array()) all.push_back(one);
    } else if (diagnostics.empty()) {
      std::printf("%s: ok\n", wanted.c_str());
    } else {
      for (const Diagnostic& one : diagnostics) {
        std::fputs(FormatDiagnostic(one, *text).c_str(), stderr);
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
