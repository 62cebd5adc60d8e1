// Helpers of the plugin tests: a folder that goes away, and registries over chosen fixtures.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kernel_evolve {

// A fresh folder, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ke_plugin_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  std::filesystem::path CopyIn(const std::filesystem::path& file, const std::string& name) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::remove(path_ / name);  // never write into a library that may be loaded
    std::filesystem::copy_file(file, path_ / name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string Slurp(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::filesystem::path Bad(const std::string& name) {
  return std::filesystem::path(BAD_PLUGINS) / (name + ".so");
}
inline std::filesystem::path Good(const std::string& id) {
  return std::filesystem::path(GOOD_PLUGINS) / id;
}
// The shipped plugins, as the build leaves them.
inline std::filesystem::path Shipped(const std::string& id) {
  return std::filesystem::path(KERNEL_EVOLVE_BUILD_DIR) / "lib/kernel_evolve/plugins" / id;
}

inline Registry ScanOnly(const std::filesystem::path& dir_or_file) {
  return Registry::Scan({{dir_or_file, "the test", true}});
}

// Records what a plugin tells its host.
class RecordingHost : public HostServices {
 public:
  std::vector<std::string> said;
  bool cancelled = false;

  void Log(LogLevel level, std::string_view message) override {
    said.push_back("log " + std::to_string(static_cast<int>(level)) + " " + std::string(message));
  }
  void Progress(const Json& data) override { said.push_back("progress " + data.Dump()); }
  bool Cancelled() override { return cancelled; }
  int64_t TimeLeftMs() override { return 1500; }
  void ReportUsage(const Json& usage) override { said.push_back("usage " + usage.Dump()); }
  std::optional<std::string> Secret(const std::string& name) override {
    if (name == "key") return "s3cret";
    return std::nullopt;
  }
  void Entering(const TypeInfo& type, std::string_view what) override {
    said.push_back(std::string(what) + " " + type.name);
  }
};

inline Json Parsed(const std::string& text) {
  const Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *json : Json();
}

inline Json ConfigOf(const std::string& params) {
  return Json::Obj({{"params", Parsed(params)}, {"context", Json::Obj({{"seed", 42}})}});
}

// A step whose outcome the test takes for granted.
inline Json StepOk(Instance& instance, const std::string& event) {
  Result<Json> outcome = instance.Step(Parsed(event));
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
  return outcome.ok() ? *outcome : Json();
}

}  // namespace kernel_evolve
