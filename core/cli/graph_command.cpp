// kernel-evolve graph: draws a graph, or lists the installed ones.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"
#include "core/graph/printer.hpp"

namespace kernel_evolve::cli {
namespace {

int ListGraphs() {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(ThisInstallation().graphs(), failed)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  if (failed) {
    return Fail(MissingEnvironment("no graphs at " + ThisInstallation().graphs().string() +
                                   "; install KernelEvolve again"));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) std::printf("%s\n", name.c_str());
  return kExitOk;
}

int Run(const Arguments& arguments) {
  if (!arguments.Has("GRAPH")) return ListGraphs();
  const Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return Fail(registry.error());
  const Result<GraphFile> file = FindGraph(arguments.Get("GRAPH"));
  if (!file) return Fail(file.error());
  const Result<graph::Graph> loaded = OpenGraph(*file, *registry);
  if (!loaded) return loaded.error().exit_code;
  const std::string drawing =
      arguments.Has("--dot") ? graph::ToDot(*loaded) : graph::ToMermaid(*loaded);
  std::fputs(drawing.c_str(), stdout);
  return kExitOk;
}

const Registration kThis(
    {"graph", "Draws a graph as Mermaid or DOT; without GRAPH, lists the installed ones",
     WithPluginOptions({{"GRAPH", "", "Graph file, or name of an installed one"},
                        {"--mermaid", "", "Mermaid (the default)"},
                        {"--dot", "", "Graphviz DOT"}}),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
