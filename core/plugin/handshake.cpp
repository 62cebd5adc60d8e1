#include "core/plugin/handshake.hpp"

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace kernel_evolve {
namespace {

// What a type's table had before 1.1; a plugin of then goes on working.
constexpr size_t kTypeSizeOf10 = offsetof(ke_type, codec);

std::string Version(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

bool IsId(const char* text) {
  if (text == nullptr || *text < 'a' || *text > 'z') return false;
  for (const char* c = text; *c != '\0'; ++c) {
    const bool fine =
        (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_' || *c == '-';
    if (!fine) return false;
  }
  return std::strlen(text) <= 64;
}

std::string TooShort(const std::string& what, size_t has, size_t needs) {
  return "gives " + what + " of " + std::to_string(has) + " bytes where ABI " +
         Version(KE_ABI_MAJOR, KE_ABI_MINOR) + " has " + std::to_string(needs) +
         "; build it with this host's SDK";
}

// Whether the table reaches as far as the field that ABI 1.1 appended.
bool HasCodecField(const ke_type& type) { return type.struct_size >= sizeof(ke_type); }

std::string CheckCodec(const ke_type& type, const std::string& what) {
  if (type.codec == nullptr) return {};
  if (type.kind != KE_KIND_PROVIDER) return "gives " + what + " a codec; only providers have one";
  if (type.codec->struct_size < sizeof(ke_codec_vtable)) {
    return TooShort("a codec for " + what, type.codec->struct_size, sizeof(ke_codec_vtable));
  }
  if (type.codec->encode == nullptr || type.codec->begin == nullptr ||
      type.codec->feed == nullptr || type.codec->finish == nullptr) {
    return "leaves encode, begin, feed or finish of " + what + " empty; fill in its codec";
  }
  return {};
}

// The form is a key of the interface; a full reader is not at hand in the child that asks.
bool SaysCodec(const ke_type& type) {
  const std::string_view text = type.interface;
  const size_t key = text.find("\"form\"");
  if (key == std::string_view::npos) return false;
  const size_t value = text.find('"', text.find(':', key));
  return value != std::string_view::npos && text.substr(value).starts_with("\"codec\"");
}

std::string CheckType(const ke_type& type, size_t index) {
  const std::string what = type.name == nullptr || *type.name == '\0'
                               ? "type number " + std::to_string(index + 1)
                               : "the type '" + std::string(type.name) + "'";
  if (type.name == nullptr || *type.name == '\0') return "gives no name for " + what;
  if (type.kind < KE_KIND_NODE || type.kind > KE_KIND_EVALUATOR) {
    return "gives " + what + " the kind " + std::to_string(type.kind) +
           ", which this host does not know; update KernelEvolve";
  }
  if (type.summary == nullptr || type.params_schema == nullptr || type.interface == nullptr) {
    return "gives no summary, params schema or interface for " + what + "; fill in its ke_type";
  }
  if (type.vtable == nullptr) return "gives no vtable for " + what + "; fill in its ke_type";
  if (type.vtable->struct_size < sizeof(ke_type_vtable)) {
    return TooShort("a vtable for " + what, type.vtable->struct_size, sizeof(ke_type_vtable));
  }
  if (type.vtable->create == nullptr || type.vtable->step == nullptr ||
      type.vtable->destroy == nullptr) {
    return "leaves create, step or destroy of " + what + " empty; fill in its vtable";
  }
  const bool has_codec = HasCodecField(type) && type.codec != nullptr;
  if (type.kind == KE_KIND_PROVIDER && SaysCodec(type) != has_codec) {
    return has_codec
               ? "gives " + what + " a codec, but its interface does not say \"form\": \"codec\""
               : "says that " + what + " is a codec, but gives none; fill in its ke_type";
  }
  return has_codec ? CheckCodec(type, what) : std::string();
}

// Text as a JSON string. Bytes are passed through: the reader refuses what is not UTF-8.
std::string Quoted(const char* text) {
  std::string out = "\"";
  for (const char* c = text == nullptr ? "" : text; *c != '\0'; ++c) {
    const auto byte = static_cast<unsigned char>(*c);
    if (byte == '"' || byte == '\\') {
      out.push_back('\\');
      out.push_back(*c);
    } else if (byte < 0x20) {
      char escaped[7];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out.push_back(*c);
    }
  }
  return out + "\"";
}

}  // namespace

const ke_type& TypeAt(const ke_plugin& plugin, size_t index) {
  const auto* first = reinterpret_cast<const char*>(plugin.types);
  return *reinterpret_cast<const ke_type*>(first + index * plugin.types->struct_size);
}

std::string NotLoadable(const std::string& path, std::string_view cause) {
  // The loader begins with the path, which the sentence has already.
  if (const size_t at = cause.find(path + ": "); at != std::string_view::npos) {
    cause.remove_prefix(at + path.size() + 2);
  }
  return "cannot be loaded: " + std::string(cause) + "; install what it needs or build it again";
}

std::string HandshakeRefusal(const ke_plugin* plugin) {
  const std::string offer = "this host offers " + Version(KE_ABI_MAJOR, KE_ABI_MINOR);
  if (plugin == nullptr) {
    return "gives no descriptor; ke_plugin_query must return one whatever the host's version";
  }
  if (plugin->magic != KE_ABI_MAGIC) {
    return "is not a KernelEvolve plugin: its descriptor does not begin with KE_ABI_MAGIC; build "
           "it "
           "with kernel_evolve_add_plugin";
  }
  if (plugin->abi_major != KE_ABI_MAJOR) {
    return "needs plugin ABI " + std::to_string(plugin->abi_major) + ".x, " + offer + "; " +
           (plugin->abi_major > KE_ABI_MAJOR ? "update KernelEvolve or build the plugin with this "
                                               "host's SDK"
                                             : "build the plugin with this host's SDK");
  }
  if (plugin->abi_minor_required > KE_ABI_MINOR) {
    return "needs plugin ABI " + Version(plugin->abi_major, plugin->abi_minor_required) +
           " or newer, " + offer + "; update KernelEvolve or build the plugin with this host's SDK";
  }
  if (plugin->struct_size < sizeof(ke_plugin)) {
    return TooShort("a descriptor", plugin->struct_size, sizeof(ke_plugin));
  }
  if (!IsId(plugin->id) || plugin->version == nullptr || *plugin->version == '\0') {
    return "gives no proper id and version; an id has lower-case letters, digits, '_' and '-'";
  }
  if (plugin->type_count == 0 || plugin->types == nullptr) {
    return "offers no type; list at least one node, provider or evaluator";
  }
  const size_t least = plugin->abi_minor_required >= 1 ? sizeof(ke_type) : kTypeSizeOf10;
  if (plugin->types->struct_size < least) {
    return TooShort("a type table", plugin->types->struct_size, least);
  }
  for (size_t i = 0; i < plugin->type_count; ++i) {
    std::string problem = CheckType(TypeAt(*plugin, i), i);
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string ManifestText(const ke_plugin& plugin, std::string_view library, std::string_view hash) {
  static constexpr const char* kKinds[] = {"node", "provider", "evaluator"};
  std::string out = "{\n  \"format\": 1,\n  \"id\": " + Quoted(plugin.id);
  out += ",\n  \"version\": " + Quoted(plugin.version);
  out += ",\n  \"build_info\": " + Quoted(plugin.build_info);
  out += ",\n  \"abi\": {\"major\": " + std::to_string(plugin.abi_major) +
         ", \"minor_required\": " + std::to_string(plugin.abi_minor_required) + "}";
  out += ",\n  \"library\": " + Quoted(std::string(library).c_str());
  out += ",\n  \"hash\": " + Quoted(std::string(hash).c_str()) + ",\n  \"types\": [";
  for (size_t i = 0; i < plugin.type_count; ++i) {
    const ke_type& type = TypeAt(plugin, i);
    out += std::string(i == 0 ? "" : ",") +
           "\n    {\n      \"kind\": " + Quoted(kKinds[type.kind - KE_KIND_NODE]) +
           ",\n      \"name\": " + Quoted(type.name) +
           ",\n      \"summary\": " + Quoted(type.summary) +
           ",\n      \"params_schema\": " + type.params_schema +
           ",\n      \"interface\": " + type.interface + "\n    }";
  }
  return out + "\n  ]\n}\n";
}

}  // namespace kernel_evolve
