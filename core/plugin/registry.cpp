#include "core/plugin/registry.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "core/base/file.hpp"
#include "core/plugin/boundary.hpp"
#include "core/plugin/child_query.hpp"
#include "core/plugin/codec_instance.hpp"
#include "core/plugin/handshake.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/instance.hpp"
#include "core/plugin/library_image.hpp"
#include "core/plugin/manifest.hpp"
#include "core/plugin/schema.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxManifest = 4U << 20U;

bool EndsWith(const std::string& text, std::string_view suffix) {
  return text.size() > suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool IsManifestFile(const fs::path& path) {
  return EndsWith(path.filename().string(), kManifestSuffix);
}

fs::path ManifestOf(const fs::path& library) {
  return library.parent_path() / (library.stem().string() + std::string(kManifestSuffix));
}

// The entries of a folder in a fixed order.
std::vector<fs::path> Entries(const fs::path& dir) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end; it.increment(failed)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

Result<Manifest> FromManifest(const fs::path& file) {
  Result<std::string> text = ReadFile(file, kMaxManifest);
  if (!text.ok()) return text.error();
  Result<Manifest> manifest = ParseManifest(*text, file, file.parent_path());
  if (!manifest.ok()) return manifest;
  std::error_code unknown;
  if (!fs::is_regular_file(manifest->library, unknown)) {
    return Refused(file, "describes " + manifest->library.filename().string() +
                             ", which is not beside it; build the plugin again or copy both files");
  }
  return manifest;
}

Result<Manifest> FromLibrary(const fs::path& library) {
  const LibraryImage image = LibraryImage::Read(library);
  if (!image.refusal.empty()) return Refused(library, image.refusal);
  const ChildAnswer answer = QueryInChild({library, image.hash});
  if (!answer.refusal.empty()) return Refused(library, answer.refusal);
  return ParseManifest(answer.manifest, library, library.parent_path());
}

}  // namespace

namespace {

bool IsCodec(const TypeInfo& type) { return type.interface.Text("form") == "codec"; }

Error WrongForm(const TypeInfo& type, const std::string& what) {
  return Failed(ErrorClass::kInternal, Describe(type) + " is " + what);
}

}  // namespace

struct Registry::State {
  struct Plugin {
    Json manifest;
    const ke_plugin* loaded = nullptr;
  };
  std::vector<TypeInfo> types;
  std::vector<Error> errors;
  std::vector<ScanNote> notes;
  std::map<std::string, fs::path> found;  // plugin id -> the library that won
  std::mutex mutex;                       // guards what follows; held while a library loads
  std::map<fs::path, Plugin> plugins;

  void Note(const fs::path& path, std::string outcome) {
    notes.push_back({path, std::move(outcome)});
  }

  void Fail(const fs::path& path, const Error& error) {
    Note(path, "not used: " + error.message);
    errors.push_back(error);
  }

  void ScanPath(const SearchPath& path) {
    std::error_code unknown;
    if (!path.dir.is_absolute()) {
      Fail(path.dir, BadInput("the plugin folder '" + path.dir.string() + "' (from " + path.why +
                              ") is relative; write it in full"));
    } else if (fs::is_regular_file(path.dir, unknown)) {
      Note(path.dir, "named by " + path.why);
      ScanFile(path.dir);
    } else if (fs::is_directory(path.dir, unknown)) {
      Note(path.dir, "searched, from " + path.why);
      ScanFolder(path.dir);
    } else if (path.required) {
      Fail(path.dir, BadInput("the plugin folder " + path.dir.string() + " (from " + path.why +
                              ") does not exist; check the path"));
    } else {
      Note(path.dir, "does not exist, from " + path.why);
    }
  }

  void ScanFolder(const fs::path& dir) {
    for (const fs::path& entry : Entries(dir)) {
      std::error_code unknown;
      if (!fs::is_directory(entry, unknown)) {
        const bool covered = entry.extension() == ".so" && fs::exists(ManifestOf(entry), unknown);
        if (IsManifestFile(entry) || (entry.extension() == ".so" && !covered)) ScanFile(entry);
        continue;
      }
      const std::string id = entry.filename().string();
      const fs::path library = entry / (id + ".so");
      if (fs::exists(ManifestOf(library), unknown)) {
        ScanFile(ManifestOf(library));
      } else if (fs::exists(library, unknown)) {
        ScanFile(library);
      } else {
        Note(entry, "holds no plugin: neither " + id + std::string(kManifestSuffix) + " nor " + id +
                        ".so");
      }
    }
  }

  // A manifest, or a library that may have one beside it.
  void ScanFile(const fs::path& file) {
    std::error_code unknown;
    const bool has_manifest = IsManifestFile(file) || fs::exists(ManifestOf(file), unknown);
    Result<Manifest> manifest = !has_manifest          ? FromLibrary(file)
                                : IsManifestFile(file) ? FromManifest(file)
                                                       : FromManifest(ManifestOf(file));
    if (!manifest.ok()) return Fail(file, manifest.error());
    Take(file, *std::move(manifest), has_manifest);
  }

  void Take(const fs::path& file, Manifest manifest, bool has_manifest) {
    const auto [at, is_new] = found.emplace(manifest.id, manifest.library);
    if (!is_new) {
      return Note(file, at->second == manifest.library
                            ? "seen already"
                            : "shadowed by " + at->second.string() + ", which was found first");
    }
    Note(file, "plugin " + manifest.id + " " + manifest.version + ", " +
                   std::to_string(manifest.types.size()) +
                   (manifest.types.size() == 1 ? " type" : " types") +
                   (has_manifest ? "" : "; without a manifest, asked in a child process"));
    for (TypeInfo& type : manifest.types) AddType(std::move(type));
    plugins[manifest.library] = {std::move(manifest.json), nullptr};
  }

  void AddType(TypeInfo type) {
    for (const TypeInfo& other : types) {
      if (other.kind != type.kind || other.name != type.name) continue;
      return Fail(type.library,
                  BadInput(std::string("the ") + TypeKindName(type.kind) + " '" + type.name +
                           "' is offered by " + other.library.string() + " and again by " +
                           type.library.string() + "; remove one of the two plugins"));
    }
    types.push_back(std::move(type));
  }

  // The loaded descriptor; loads it the first time.
  Result<const ke_plugin*> Load(const TypeInfo& type, HostServices& services) {
    const std::lock_guard<std::mutex> lock(mutex);
    Plugin& plugin = plugins[type.library];
    if (plugin.loaded != nullptr) return plugin.loaded;
    services.Entering(type, "load");
    Result<const ke_plugin*> loaded = LoadPlugin(type.library, type.library_hash);
    if (!loaded.ok()) return loaded;
    const Result<Json> offered =
        Json::Parse(ManifestText(**loaded, type.library.filename().string(), type.library_hash));
    if (!offered.ok() || !(*offered == plugin.manifest)) {
      return Refused(type.library, kStaleManifest);
    }
    plugin.loaded = *loaded;
    return loaded;
  }

  // The type's tables, loaded, and the config with checked and completed params.
  Result<const ke_type*> Open(const TypeInfo& type, const Json& config, HostServices& services,
                              Json* complete) {
    // A provider's parameters stand directly under the model in a profile.
    const std::string where = type.kind == TypeKind::kProvider ? "" : "with";
    Result<Json> params = ApplyParamsSchema(type.params_schema, config["params"], where);
    if (!params.ok()) return params.error();
    Result<const ke_plugin*> plugin = Load(type, services);
    if (!plugin.ok()) return plugin.error();
    *complete = config;
    (*complete)["params"] = *std::move(params);
    for (size_t i = 0; i < (*plugin)->type_count; ++i) {
      const ke_type& offered = TypeAt(**plugin, i);
      if (offered.name == type.name &&
          offered.kind - KE_KIND_NODE == static_cast<uint32_t>(type.kind)) {
        return &offered;
      }
    }
    return Refused(type.library, kStaleManifest);
  }
};

Registry::Registry(std::unique_ptr<State> state) : state_(std::move(state)) {}
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;
Registry::~Registry() = default;

Registry Registry::Scan(const std::vector<SearchPath>& paths) {
  auto state = std::make_unique<State>();
  for (const SearchPath& path : paths) state->ScanPath(path);
  std::sort(state->types.begin(), state->types.end(), [](const TypeInfo& a, const TypeInfo& b) {
    return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
  });
  return Registry(std::move(state));
}

const std::vector<TypeInfo>& Registry::types() const { return state_->types; }
const std::vector<Error>& Registry::errors() const { return state_->errors; }
const std::vector<ScanNote>& Registry::notes() const { return state_->notes; }

const TypeInfo* Registry::Find(TypeKind kind, const std::string& name) const {
  for (const TypeInfo& type : state_->types) {
    if (type.kind == kind && type.name == name) return &type;
  }
  return nullptr;
}

Result<std::unique_ptr<Instance>> Registry::Create(const TypeInfo& type, const Json& config,
                                                   std::shared_ptr<HostServices> services) {
  if (IsCodec(type)) return WrongForm(type, "a codec; it takes no steps");
  if (services == nullptr) services = std::make_shared<HostServices>();
  Json complete;
  Result<const ke_type*> offered = state_->Open(type, config, *services, &complete);
  if (!offered) return offered.error();
  return CreateInstance(type, *(*offered)->vtable, complete, std::move(services));
}

Result<std::unique_ptr<Codec>> Registry::CreateCodec(const TypeInfo& type, const Json& config,
                                                     std::shared_ptr<HostServices> services) {
  if (!IsCodec(type)) return WrongForm(type, "no codec; it is driven by steps");
  if (services == nullptr) services = std::make_shared<HostServices>();
  Json complete;
  Result<const ke_type*> offered = state_->Open(type, config, *services, &complete);
  if (!offered) return offered.error();
  return CreateCodecInstance(type, **offered, complete, std::move(services));
}

}  // namespace kernel_evolve
