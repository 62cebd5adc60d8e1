#include <cstdlib>

#include "core/base/text.hpp"
#include "core/plugin/registry.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

SearchEnvironment SearchEnvironment::FromProcess() {
  SearchEnvironment out;
  out.plugin_path = Environment("KERNEL_EVOLVE_PLUGIN_PATH");
  const std::string home = Environment("HOME");
  out.data_home = Environment("XDG_DATA_HOME");
  // The XDG rules: a relative value is to be ignored.
  if (!out.data_home.is_absolute()) out.data_home.clear();
  if (out.data_home.empty() && !home.empty()) out.data_home = fs::path(home) / ".local" / "share";
  std::error_code unknown;
  out.executable = fs::read_symlink("/proc/self/exe", unknown);
  return out;
}

std::vector<SearchPath> DefaultSearchPaths(const std::vector<fs::path>& explicit_dirs,
                                           const SearchEnvironment& environment) {
  std::vector<SearchPath> paths;
  for (const fs::path& dir : explicit_dirs) {
    std::error_code gone;  // the working directory may be: the path then stays as given
    const fs::path absolute = fs::absolute(dir, gone);
    paths.push_back({gone ? dir : absolute, "--plugin-path", true});
  }
  for (const std::string& dir : Split(environment.plugin_path, ':')) {
    // An empty entry means the working directory to a shell; here it means nothing.
    if (!dir.empty()) paths.push_back({dir, "KERNEL_EVOLVE_PLUGIN_PATH", true});
  }
  if (!environment.data_home.empty()) {
    paths.push_back({environment.data_home / "kernel-evolve" / "plugins", "your data folder"});
  }
  if (!environment.executable.empty()) {
    const fs::path prefix = environment.executable.parent_path().parent_path();
    paths.push_back({prefix / "lib" / "kernel_evolve" / "plugins", "the installation"});
  }
  return paths;
}

}  // namespace kernel_evolve
