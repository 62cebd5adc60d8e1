#include "core/cli/installation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/worker/python.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTaskBytes = 1U << 20U;

std::optional<graph::ValueType> TypeNamed(const Json& name) {
  return name.is_string() ? graph::ParseValueType(name.string()) : std::nullopt;
}

std::vector<graph::Port> PortsOf(const Json& list) {
  std::vector<graph::Port> ports;
  if (!list.is_array()) return ports;
  for (const Json& port : list.array()) {
    // The registry refuses manifests with a type that the language lacks; object is for no case.
    const graph::ValueType type = TypeNamed(port["type"]).value_or(graph::ValueType::kObject);
    ports.push_back({port.Text("name"), type, port.Flag("required", true)});
  }
  return ports;
}

std::vector<std::string> GraphNames() {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(ThisInstallation().graphs(), failed)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

const Installation& ThisInstallation() {
  static const Installation found = [] {
    std::error_code failed;
    const fs::path program = fs::read_symlink("/proc/self/exe", failed);
    return Installation{program.parent_path().parent_path()};
  }();
  return found;
}

std::vector<Option> WithPluginOptions(std::vector<Option> options) {
  options.push_back({"--plugin-path", "DIR", "Look for plugins here first", false, true});
  return options;
}

std::vector<SearchPath> PluginPaths(const Arguments& arguments) {
  std::vector<fs::path> dirs;
  for (const std::string& dir : arguments.All("--plugin-path")) dirs.emplace_back(dir);
  return DefaultSearchPaths(dirs);
}

Result<Registry> OpenRegistry(const Arguments& arguments) {
  for (const std::string& dir : arguments.All("--plugin-path")) {
    if (!fs::is_directory(dir)) return BadInput("--plugin-path " + dir + " is not a folder");
  }
  Registry registry = Registry::Scan(PluginPaths(arguments));
  if (!registry.errors().empty()) return registry.errors().front();
  if (registry.types().empty()) {
    return MissingEnvironment(
        "no plugins were found; 'kernel-evolve plugins list --explain' shows where they are looked "
        "for");
  }
  return registry;
}

graph::NodeTypeCatalog CatalogOf(const Registry& registry) {
  graph::NodeTypeCatalog catalog;
  for (const TypeInfo& type : registry.types()) {
    if (type.kind != TypeKind::kNode) continue;
    graph::NodeTypeInfo info;
    info.name = type.name;
    info.params_schema = type.params_schema;
    info.in = PortsOf(type.interface["ports"]["in"]);
    info.out = PortsOf(type.interface["ports"]["out"]);
    if (type.interface["result"].is_object()) {
      for (const auto& [name, value] : type.interface["result"].object()) {
        info.result[name] = TypeNamed(value).value_or(graph::ValueType::kObject);
      }
    }
    if (type.interface["labels"].is_array()) {
      for (const Json& label : type.interface["labels"].array()) {
        if (label.is_string()) info.labels.push_back(label.string());
      }
    }
    catalog[info.name] = std::move(info);
  }
  return catalog;
}

graph::PluginVersions VersionsOf(const Registry& registry) {
  graph::PluginVersions versions;
  for (const TypeInfo& type : registry.types()) versions[type.plugin_id] = type.plugin_version;
  return versions;
}

Result<GraphFile> FindGraph(const std::string& wanted) {
  const bool is_name =
      wanted.find('/') == std::string::npos && fs::path(wanted).extension().empty();
  if (!is_name || fs::is_regular_file(wanted)) {
    std::error_code failed;
    if (!fs::exists(wanted, failed)) return BadInput("there is no graph file " + wanted);
    // The file stays as typed: diagnostics speak of it the way the user does.
    return GraphFile{wanted, fs::absolute(wanted, failed).lexically_normal().parent_path()};
  }
  const fs::path file = ThisInstallation().graphs() / (wanted + ".yaml");
  if (fs::is_regular_file(file)) return GraphFile{file, file.parent_path()};
  const std::vector<std::string> names = GraphNames();
  const auto nearest = Nearest(wanted, names);
  return BadInput("there is no graph called '" + wanted + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : "") +
                  (names.empty() ? "" : " The installed graphs are: " + Join(names, ", ") + "."));
}

Result<graph::Graph> OpenGraph(const GraphFile& file, const Registry& registry) {
  const graph::PluginVersions versions = VersionsOf(registry);
  graph::LoadedGraph loaded =
      graph::LoadGraph(file.file, file.root, CatalogOf(registry), &versions);
  if (loaded.graph && loaded.diagnostics.empty()) return std::move(*loaded.graph);
  std::string all;
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    all += FormatDiagnostic(diagnostic, loaded.source);
  }
  std::fputs(all.c_str(), stderr);
  return BadInput(file.file.string() + " has " + std::to_string(loaded.diagnostics.size()) +
                  (loaded.diagnostics.size() == 1 ? " error" : " errors"));
}

Result<WorkerOptions> WorkerFor(const Arguments& arguments) {
  Result<fs::path> python = FindPython(arguments.Get("--python"));
  if (!python) return python.error();
  WorkerOptions options;
  options.python = *python;
  options.worker_dir = ThisInstallation().worker();
  options.jail_library = ThisInstallation().jail();
  return options;
}

Result<std::vector<WorkerOptions>> WorkersFor(const Arguments& arguments,
                                              const std::vector<std::vector<std::string>>& launch) {
  const Result<WorkerOptions> options = WorkerFor(arguments);
  if (!options) return options.error();
  std::vector<WorkerOptions> workers(std::max<size_t>(1, launch.size()), *options);
  for (size_t i = 0; i < launch.size(); ++i) workers[i].launch_prefix = launch[i];
  return workers;
}

Result<Json> ReadTask(const std::string& path) {
  Result<std::string> source = ReadFile(path, kMaxTaskBytes);
  if (!source) return source.error();
  if (Trim(*source).empty()) {
    return BadInput("the task " + path +
                    " is empty; it has to define Model, get_inputs and get_init_inputs");
  }
  if (!IsUtf8Text(*source)) return BadInput("the task " + path + " is not a text file in UTF-8");
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed).lexically_normal();
  return Json::Obj({{"path", absolute.string()},
                    {"name", absolute.stem().string()},
                    {"source", std::move(*source)}});
}

}  // namespace kernel_evolve::cli
