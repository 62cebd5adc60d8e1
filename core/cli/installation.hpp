// Where this installation keeps its parts, found from the program's own path, so that a build tree,
// an installed prefix and a moved prefix all work the same.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/cli/command.hpp"
#include "core/graph/graph.hpp"
#include "core/graph/loader.hpp"
#include "core/plugin/registry.hpp"
#include "core/worker/worker.hpp"

namespace kernel_evolve::cli {

struct Installation {
  std::filesystem::path prefix;
  std::filesystem::path graphs() const { return prefix / "share/kernel_evolve/graphs"; }
  std::filesystem::path worker() const { return prefix / "share/kernel_evolve/worker"; }
  std::filesystem::path corpus() const { return prefix / "share/kernel_evolve/exploits"; }
  std::filesystem::path jail() const { return prefix / "lib/kernel_evolve/libke_jail.so"; }
};

// From /proc/self/exe: <prefix>/bin/kernel-evolve.
const Installation& ThisInstallation();

// Options that every command with plugins takes; append them to the command's own.
std::vector<Option> WithPluginOptions(std::vector<Option> options);

// The folders that plugins are looked for in, in order (see the plugin page).
std::vector<SearchPath> PluginPaths(const Arguments& arguments);

// Scans the plugin folders. An unusable plugin in them is an error that names it.
Result<Registry> OpenRegistry(const Arguments& arguments);

graph::NodeTypeCatalog CatalogOf(const Registry& registry);

// Plugin id -> version, for a graph's `requires`.
graph::PluginVersions VersionsOf(const Registry& registry);

// A graph file, and the folder tree that its references stay inside.
struct GraphFile {
  std::filesystem::path file;
  std::filesystem::path root;
};

// `wanted` is a path to a file, or the name of an installed graph ("evolve").
Result<GraphFile> FindGraph(const std::string& wanted);

// Loads and checks; prints every diagnostic on stderr when there are some (exit 2).
Result<graph::Graph> OpenGraph(const GraphFile& file, const Registry& registry);

// The worker's options for this installation and the Python that `--python` or the environment
// says.
Result<WorkerOptions> WorkerFor(const Arguments& arguments);

// The same for one worker per command in `launch`, or for one that is started as it is.
Result<std::vector<WorkerOptions>> WorkersFor(const Arguments& arguments,
                                              const std::vector<std::vector<std::string>>& launch);

// Reads a task file: UTF-8 text of at most 1 MiB, not empty. Its Python is checked by the
// evaluator.
Result<Json> ReadTask(const std::string& path);

}  // namespace kernel_evolve::cli
