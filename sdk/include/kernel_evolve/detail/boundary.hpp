// How a Resumable class becomes C tables. Part of plugin.hpp; include that.
#pragma once

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel_evolve/plugin.hpp"

namespace kernel_evolve::sdk {

// JSON text, given as text or as a value.
class JsonText {
 public:
  JsonText(const char* text) : text_(text) {}                 // NOLINT(google-explicit-constructor)
  JsonText(std::string text) : text_(std::move(text)) {}      // NOLINT(google-explicit-constructor)
  JsonText(const json& value) : text_(Host::Print(value)) {}  // NOLINT(google-explicit-constructor)
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// One type that a plugin offers; made by Node<T>(), Provider<T>() and Evaluator<T>() below.
struct TypeSpec {
  ke_kind kind;
  std::string name;
  std::string summary;
  JsonText params_schema;
  JsonText interface;
  const ke_type_vtable* vtable;
  const ke_codec_vtable* codec = nullptr;  // of a codec
};

namespace detail {

inline void WriteText(const ke_sink* sink, const std::string& text) {
  sink->write(sink->context, text.data(), text.size());
}

inline json ErrorBody(const std::string& error_class, const std::string& message) {
  return {{"class", error_class}, {"message", message}};
}

inline json Parse(ke_span text) { return json::parse(text.data, text.data + text.size); }

// Runs `call`; an exception becomes an error in the sink. Nothing leaves through the C boundary.
template <typename Call>
ke_status Guard(const ke_sink* sink, Call call) noexcept {
  try {
    try {
      call();
      return KE_OK;
    } catch (const PluginError& e) {
      WriteText(sink, Host::Print(ErrorBody(e.error_class(), e.what())));
    } catch (const std::exception& e) {
      WriteText(sink, Host::Print(ErrorBody("internal", e.what())));
    } catch (...) {
      WriteText(sink, Host::Print(ErrorBody("internal", "it threw what is not a std::exception")));
    }
  } catch (...) {
    // Out of memory while saying so: the status alone has to do.
  }
  return KE_ERROR;
}

template <typename T>
ke_status Create(const ke_host* host, ke_span config, void** instance, const ke_sink* error) {
  return Guard(error, [&] {
    json given = Parse(config);
    Config made;
    if (given.contains("params")) made.params = std::move(given["params"]);
    if (given.contains("context")) made.context = std::move(given["context"]);
    std::unique_ptr<Resumable> object = std::make_unique<T>(made, Host(host));
    *instance = object.release();
  });
}

inline ke_status Step(void* instance, ke_span event, const ke_sink* outcome) {
  return Guard(outcome, [&] {
    std::string text;
    try {
      text = Host::Print(static_cast<Resumable*>(instance)->Step(Parse(event)).value());
    } catch (const PluginError& e) {
      text = Host::Print({{"error", ErrorBody(e.error_class(), e.what())}});
    }
    WriteText(outcome, text);
  });
}

inline void Destroy(void* instance) { delete static_cast<Resumable*>(instance); }

template <typename T>
const ke_type_vtable* Vtable() {
  static constexpr ke_type_vtable kTable = {sizeof(ke_type_vtable), &Create<T>, &Step, &Destroy};
  return &kTable;
}

// Owns the text behind the C tables. One per plugin, static.
class Tables {
 public:
  Tables(std::string id, std::string version, std::vector<TypeSpec> specs)
      : id_(std::move(id)), version_(std::move(version)), specs_(std::move(specs)) {
    uint32_t minor_required = 0;
    types_.reserve(specs_.size());
    for (const TypeSpec& spec : specs_) {
      types_.push_back({sizeof(ke_type), static_cast<uint32_t>(spec.kind), spec.name.c_str(),
                        spec.summary.c_str(), spec.params_schema.text().c_str(),
                        spec.interface.text().c_str(), spec.vtable, spec.codec});
      if (spec.codec != nullptr) minor_required = 1;
    }
    plugin_ = {KE_ABI_MAGIC,     KE_ABI_MAJOR,     minor_required, sizeof(ke_plugin), id_.c_str(),
               version_.c_str(), "g++ or clang++", types_.size(),  types_.data()};
#if defined(__VERSION__)
    plugin_.build_info = __VERSION__;
#endif
  }
  const ke_plugin* plugin() const { return &plugin_; }

 private:
  std::string id_;
  std::string version_;
  std::vector<TypeSpec> specs_;
  std::vector<ke_type> types_;
  ke_plugin plugin_ = {};
};

// Tables can only fail to be made for a programmer's mistake; the build's query shows the sentence.
inline const ke_plugin* Query(const ke_plugin* (*tables)()) noexcept {
  try {
    return tables();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "the plugin's tables could not be built: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "the plugin's tables could not be built\n");
  }
  return nullptr;
}

}  // namespace detail

// T takes (const Config&, const Host&) and is a Resumable. `params_schema` and `interface` are JSON
// as text or as a value; sdk/ABI.md says what they hold.
template <typename T>
TypeSpec Node(std::string name, std::string summary, JsonText params_schema, JsonText interface) {
  return {KE_KIND_NODE,
          std::move(name),
          std::move(summary),
          std::move(params_schema),
          std::move(interface),
          detail::Vtable<T>(),
          nullptr};
}
template <typename T>
TypeSpec Provider(std::string name, std::string summary, JsonText params_schema,
                  JsonText interface) {
  return {KE_KIND_PROVIDER,
          std::move(name),
          std::move(summary),
          std::move(params_schema),
          std::move(interface),
          detail::Vtable<T>(),
          nullptr};
}
template <typename T>
TypeSpec Evaluator(std::string name, std::string summary, JsonText params_schema,
                   JsonText interface) {
  return {KE_KIND_EVALUATOR,
          std::move(name),
          std::move(summary),
          std::move(params_schema),
          std::move(interface),
          detail::Vtable<T>(),
          nullptr};
}

}  // namespace kernel_evolve::sdk
