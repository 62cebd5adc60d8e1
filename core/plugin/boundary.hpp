// The C boundary as the host crosses it: what a plugin writes into, what it may call, and how its
// failures become errors. Shared by instances and codecs; internal to plugin/.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/plugin/registry.hpp"
#include "kernel_evolve/abi.h"

namespace kernel_evolve {

inline ke_span Span(std::string_view text) { return {text.data(), text.size()}; }

// Collects what a plugin writes, up to 256 MiB. Never throws into the plugin.
class Sink {
 public:
  Sink() : sink_{this, &Write} {}
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  const ke_sink* get() const { return &sink_; }
  std::string& text() { return text_; }
  const std::string& text() const { return text_; }
  bool overflow() const { return overflow_; }

 private:
  static void Write(void* context, const char* data, size_t size) noexcept;

  ke_sink sink_;
  std::string text_;
  bool overflow_ = false;
};

// The C table over HostServices. Nothing is thrown into the plugin.
class HostTable {
 public:
  explicit HostTable(std::shared_ptr<HostServices> services);
  const ke_host* get() const { return &table_; }
  HostServices& services() const { return *services_; }

 private:
  std::shared_ptr<HostServices> services_;
  ke_host table_;
};

// "the node 'acme/clock' of plugin acme_clock"
std::string Describe(const TypeInfo& type);

// What a KE_ERROR says; `planned` when it carries one of the closed classes, and not internal.
struct PluginFailure {
  ErrorClass error_class = ErrorClass::kInternal;
  std::string message;  // empty when the plugin did not say
  bool planned = false;
  std::string Why() const { return message.empty() ? " and did not say why" : ": " + message; }
};
PluginFailure ReadFailure(const Sink& sink);

// Calls the vtable's `create`. `config` is complete and checked. A planned failure keeps the
// plugin's own sentence. The caller owns the object and gives it back to `destroy`.
Result<void*> CreateObject(const TypeInfo& type, const ke_type_vtable& vtable, const Json& config,
                           HostTable& host);

}  // namespace kernel_evolve
