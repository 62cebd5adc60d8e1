// kernel-evolve plugins list: what is installed, from the manifests; with --explain, every path
// tried.
#include <cstdio>

#include "core/base/json.hpp"
#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"

namespace kernel_evolve::cli {
namespace {

const char* KindName(TypeKind kind) {
  switch (kind) {
    case TypeKind::kNode:
      return "node";
    case TypeKind::kProvider:
      return "provider";
    case TypeKind::kEvaluator:
      return "evaluator";
  }
  return "?";
}

int Run(const Arguments& arguments) {
  const Registry registry = Registry::Scan(PluginPaths(arguments));
  if (arguments.Has("--json")) {
    Json out = Json::Arr();
    for (const TypeInfo& type : registry.types()) {
      out.push_back(Json::Obj({{"kind", KindName(type.kind)},
                               {"name", type.name},
                               {"summary", type.summary},
                               {"plugin", type.plugin_id},
                               {"version", type.plugin_version},
                               {"library", type.library.string()},
                               {"params", type.params_schema},
                               {"interface", type.interface}}));
    }
    std::printf("%s\n", out.Dump(2).c_str());
  } else {
    for (const TypeInfo& type : registry.types()) {
      std::printf("%-10s %-18s %-22s %s\n", KindName(type.kind), type.name.c_str(),
                  (type.plugin_id + " " + type.plugin_version).c_str(), type.summary.c_str());
    }
  }
  if (arguments.Has("--explain")) {
    std::fprintf(stderr, "\nPaths tried, in order:\n");
    for (const ScanNote& note : registry.notes()) {
      std::fprintf(stderr, "  %s: %s\n", note.path.c_str(), note.outcome.c_str());
    }
  }
  for (const Error& error : registry.errors()) {
    std::fprintf(stderr, "kernel-evolve: %s\n", error.message.c_str());
  }
  return registry.errors().empty() ? kExitOk : kExitEnvironment;
}

const Registration kThis({"plugins list",
                          "Lists node types, providers and evaluators, and the plugin of each",
                          WithPluginOptions({{"--explain", "", "Every path tried and why"},
                                             {"--json", "", "As JSON, with schemas"}}),
                          Run});

}  // namespace
}  // namespace kernel_evolve::cli
