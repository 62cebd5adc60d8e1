// Registry: what the installed plugins offer, and how to make an instance of it.
//
// Scan() reads manifests only; a library is loaded at the first Create() of one of its types, and
// stays loaded for the life of the process. TypeInfo pointers live as long as their Registry.
// A scanned Registry is safe to use from many threads; an Instance takes one call at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/log.hpp"
#include "core/base/result.hpp"
#include "core/plugin/codec.hpp"

namespace kernel_evolve {

enum class TypeKind { kNode, kProvider, kEvaluator };

// "node", "provider", "evaluator"
const char* TypeKindName(TypeKind kind);

// One type that a plugin offers, as its manifest says. A value; cheap to read, safe to copy.
struct TypeInfo {
  TypeKind kind = TypeKind::kNode;
  std::string name;
  std::string summary;
  Json params_schema;  // what `with:` may hold: the subset in schema.hpp
  Json interface;      // ports, result fields and labels of a node; capabilities of a provider; ...
  std::string plugin_id;
  std::string plugin_version;
  std::filesystem::path library;  // absolute; its folder is the plugin's folder (python/ beside it)
  std::string library_hash;       // identity of the library's content, for the journal
};

// A folder to look into, or one plugin file. `why` is for people: "--plugin-path", ...
struct SearchPath {
  std::filesystem::path dir;
  std::string why;
  bool required = false;  // a path that the user named: an error, not a note, when it is missing
};

// What came of one folder or file that Scan() looked at, for `plugins list --explain`.
struct ScanNote {
  std::filesystem::path path;
  std::string outcome;
};

// What the host offers an instance while it runs. Override what you have; the defaults log to
// stderr, are never cancelled and know no secret. Called from whatever thread the plugin uses, so
// an override must be thread-safe and must not block. An exception that escapes is swallowed.
class HostServices {
 public:
  virtual ~HostServices() = default;
  virtual void Log(LogLevel level, std::string_view message);
  // A short line for whoever watches the run: {"text": "..."}.
  virtual void Progress(const Json& data);
  virtual bool Cancelled();
  // Milliseconds until the deadline of the current step; -1 for none.
  virtual int64_t TimeLeftMs();
  // {"input_tokens": n, "output_tokens": n, "cost": x}
  virtual void ReportUsage(const Json& usage);
  virtual std::optional<std::string> Secret(const std::string& name);
  // The breadcrumb: called on the caller's thread just before control enters the plugin. `what` is
  // "load", "create" or "step". If the process dies inside, this was the last word.
  virtual void Entering(const TypeInfo& type, std::string_view what);
};

// A handle on one live instance; it also keeps the library loaded. Destroying it destroys the
// plugin's object. One call at a time, from any thread.
class Instance {
 public:
  virtual ~Instance() = default;
  // Hands over one event and returns the outcome, structurally checked: exactly one of
  // {"effects": [...]}, {"done": {...}} or {"error": {"class", "message"}} (see sdk/ABI.md).
  // An Error means that the plugin failed or broke the protocol; the instance is then finished, and
  // so it is after "done" and "error": another Step() is refused.
  virtual Result<Json> Step(const Json& event) = 0;
};

class Registry {
 public:
  // Looks into every folder in order. A folder holds `<id>/<id>.keplugin.json` or flat files
  // `<id>.keplugin.json`; a library without a manifest is queried in a child process. Never fails:
  // what could not be used is in errors(), and everything looked at is in notes().
  static Registry Scan(const std::vector<SearchPath>& paths);

  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;
  ~Registry();

  // Sorted by kind and name.
  const std::vector<TypeInfo>& types() const;
  const TypeInfo* Find(TypeKind kind, const std::string& name) const;  // nullptr when unknown
  const std::vector<Error>& errors() const;
  const std::vector<ScanNote>& notes() const;

  // Makes an instance. `config` is {"params": {...}, "context": {...}}; params are checked against
  // the type's schema and completed with its defaults. `type` must come from this registry; without
  // `services` the defaults serve.
  // Errors: validation (params; the sentence begins with the parameter, for all but providers after
  // "with."), unavailable (the library can't be loaded or its handshake is refused), or the class
  // that the plugin's `create` gave.
  Result<std::unique_ptr<Instance>> Create(const TypeInfo& type, const Json& config,
                                           std::shared_ptr<HostServices> services);
  // The same for a provider whose interface says "form": "codec".
  Result<std::unique_ptr<Codec>> CreateCodec(const TypeInfo& type, const Json& config,
                                             std::shared_ptr<HostServices> services);

 private:
  struct State;
  explicit Registry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What DefaultSearchPaths() reads of the process.
struct SearchEnvironment {
  std::string plugin_path;           // KERNEL_EVOLVE_PLUGIN_PATH: folders separated by ':'
  std::filesystem::path data_home;   // XDG_DATA_HOME, or ~/.local/share; empty when unknown
  std::filesystem::path executable;  // the running program; empty when unknown
  static SearchEnvironment FromProcess();
};

// The folders that are searched, in order: `explicit_dirs` (--plugin-path), the environment's, the
// user's data folder, and `../lib/kernel_evolve/plugins` beside the program. Explicit folders are
// made absolute; a relative folder from the environment stays relative, and Scan() refuses it.
std::vector<SearchPath> DefaultSearchPaths(
    const std::vector<std::filesystem::path>& explicit_dirs,
    const SearchEnvironment& environment = SearchEnvironment::FromProcess());

}  // namespace kernel_evolve
