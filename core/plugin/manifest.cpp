#include "core/plugin/manifest.hpp"

#include <optional>
#include <set>

#include "core/plugin/schema.hpp"
#include "kernel_evolve/abi.h"

namespace kernel_evolve {
namespace {

std::optional<TypeKind> ParseKind(const std::string& name) {
  for (const TypeKind kind : {TypeKind::kNode, TypeKind::kProvider, TypeKind::kEvaluator}) {
    if (name == TypeKindName(kind)) return kind;
  }
  return std::nullopt;
}

// Says what is wrong with the manifest; the caller adds the file.
Error Wrong(const std::string& what) { return Failed(ErrorClass::kValidation, what); }

Status CheckKeys(const Json& object, const std::string& what, const std::set<std::string>& known) {
  if (!object.is_object()) return Wrong(what + " is not an object");
  for (const auto& [key, value] : object.object()) {
    if (known.count(key) == 0) return Wrong(what + " has the unknown key '" + key + "'");
  }
  for (const std::string& key : known) {
    if (!object.contains(key)) return Wrong(what + " has no '" + key + "'");
  }
  return {};
}

Status CheckTexts(const Json& object, const std::string& what,
                  std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!object[key].is_string()) return Wrong(what + ": '" + key + "' is not text");
  }
  return {};
}

Status CheckAbi(const Json& abi) {
  const int64_t major = abi.Integer("major", -1);
  const int64_t minor = abi.Integer("minor_required", -1);
  if (major == KE_ABI_MAJOR && minor >= 0 && minor <= int64_t{KE_ABI_MINOR}) return {};
  return Wrong("it needs plugin ABI " + std::to_string(major) + "." + std::to_string(minor) +
               ", this host offers " + std::to_string(KE_ABI_MAJOR) + "." +
               std::to_string(KE_ABI_MINOR) +
               "; update KernelEvolve or build the plugin with this host's SDK");
}

Result<TypeInfo> ParseType(const Json& json, const Manifest& manifest) {
  Status keys =
      CheckKeys(json, "a type", {"kind", "name", "summary", "params_schema", "interface"});
  if (!keys.ok()) return keys.error();
  Status texts = CheckTexts(json, "a type", {"kind", "name", "summary"});
  if (!texts.ok()) return texts.error();
  const std::optional<TypeKind> kind = ParseKind(json.Text("kind"));
  if (!kind) return Wrong("the kind '" + json.Text("kind") + "' is unknown");
  TypeInfo type;
  type.kind = *kind;
  type.name = json.Text("name");
  type.summary = json.Text("summary");
  type.params_schema = json["params_schema"];
  type.interface = json["interface"];
  type.plugin_id = manifest.id;
  type.plugin_version = manifest.version;
  type.library = manifest.library;
  type.library_hash = manifest.hash;
  if (type.name.empty()) return Wrong("a type has an empty name");
  Status checked = CheckParamsSchema(type.params_schema);
  if (checked.ok()) checked = CheckInterface(type.kind, type.interface);
  if (!checked.ok()) return Wrong("the type '" + type.name + "': " + checked.error().message);
  return type;
}

Status Fill(const Json& json, const std::filesystem::path& dir, Manifest* out) {
  if (!json.is_object()) return Wrong("it is not a JSON object");
  // Before the keys: another version may have others.
  if (!(json["format"] == Json(1))) return Wrong("its format is not 1; update KernelEvolve");
  Status checked = CheckAbi(json["abi"]);
  if (!checked.ok()) return checked;
  checked = CheckKeys(json, "the manifest",
                      {"format", "id", "version", "build_info", "abi", "library", "hash", "types"});
  if (!checked.ok()) return checked;
  checked = CheckTexts(json, "the manifest", {"id", "version", "library", "hash"});
  if (!checked.ok()) return checked;
  const std::filesystem::path library = json.Text("library");
  if (library.empty() || library != library.filename()) {
    return Wrong("'library' must be the name of a file beside it");
  }
  out->id = json.Text("id");
  out->version = json.Text("version");
  out->library = dir / library;
  out->hash = json.Text("hash");
  out->json = json;
  if (!json["types"].is_array() || json["types"].size() == 0) return Wrong("it offers no type");
  for (const Json& item : json["types"].array()) {
    Result<TypeInfo> type = ParseType(item, *out);
    if (!type.ok()) return type.error();
    out->types.push_back(*std::move(type));
  }
  return {};
}

}  // namespace

const char* TypeKindName(TypeKind kind) {
  static constexpr const char* kNames[] = {"node", "provider", "evaluator"};
  return kNames[static_cast<size_t>(kind)];
}

Result<Manifest> ParseManifest(std::string_view text, const std::filesystem::path& source,
                               const std::filesystem::path& dir) {
  Result<Json> json = Json::Parse(text);
  Manifest manifest;
  Status filled = json.ok() ? Fill(*json, dir, &manifest) : Status(json.error());
  if (filled.ok()) return manifest;
  return MissingEnvironment(source.string() + " cannot be used: " + filled.error().message);
}

}  // namespace kernel_evolve
