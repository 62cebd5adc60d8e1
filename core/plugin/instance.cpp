#include "core/plugin/instance.hpp"

#include <optional>
#include <string>

#include "core/plugin/outcome.hpp"

namespace kernel_evolve {
namespace {

// A larger answer is a runaway plugin.
constexpr size_t kMaxAnswer = 256U << 20U;

ke_span Span(std::string_view text) { return {text.data(), text.size()}; }

std::string_view View(ke_span span) {
  return span.data == nullptr ? std::string_view() : std::string_view(span.data, span.size);
}

// Collects what a plugin writes. Never throws into the plugin.
class Sink {
 public:
  Sink() : sink_{this, &Write} {}
  const ke_sink* get() const { return &sink_; }
  const std::string& text() const { return text_; }
  bool overflow() const { return overflow_; }

 private:
  static void Write(void* context, const char* data, size_t size) noexcept {
    auto* self = static_cast<Sink*>(context);
    try {
      if (size > kMaxAnswer - self->text_.size()) {
        self->overflow_ = true;
        return;
      }
      if (size > 0) self->text_.append(data, size);
    } catch (...) {
      self->overflow_ = true;
    }
  }

  ke_sink sink_;
  std::string text_;
  bool overflow_ = false;
};

// The C table over HostServices. Nothing is thrown into the plugin.
class HostTable {
 public:
  explicit HostTable(std::shared_ptr<HostServices> services) : services_(std::move(services)) {
    table_ = {sizeof(ke_host), KE_ABI_MAJOR, KE_ABI_MINOR, services_.get(), &Log,
              &Progress,       &Cancelled,   &TimeLeftMs,  &ReportUsage,    &Secret};
  }
  const ke_host* get() const { return &table_; }
  HostServices& services() const { return *services_; }

 private:
  template <typename R, typename Call>
  static R Guarded(R fallback, Call call) noexcept {
    try {
      return call();
    } catch (...) {
      return fallback;
    }
  }
  static HostServices& Of(void* context) { return *static_cast<HostServices*>(context); }

  static void Log(void* context, ke_log_level level, ke_span message) {
    const auto known = level < KE_LOG_DEBUG || level > KE_LOG_ERROR ? KE_LOG_INFO : level;
    Guarded(0, [&] {
      Of(context).Log(static_cast<LogLevel>(known), View(message));
      return 0;
    });
  }
  static void Progress(void* context, ke_span json) {
    Guarded(0, [&] {
      const Result<Json> data = Json::Parse(View(json));
      if (data.ok()) Of(context).Progress(*data);
      return 0;
    });
  }
  static int Cancelled(void* context) {
    return Guarded(0, [&] { return Of(context).Cancelled() ? 1 : 0; });
  }
  static int64_t TimeLeftMs(void* context) {
    return Guarded(int64_t{-1}, [&] { return Of(context).TimeLeftMs(); });
  }
  static void ReportUsage(void* context, ke_span json) {
    Guarded(0, [&] {
      const Result<Json> usage = Json::Parse(View(json));
      if (usage.ok()) Of(context).ReportUsage(*usage);
      return 0;
    });
  }
  static ke_status Secret(void* context, ke_span name, const ke_sink* out) {
    return Guarded(KE_ERROR, [&] {
      const std::optional<std::string> secret = Of(context).Secret(std::string(View(name)));
      if (!secret) return KE_ERROR;
      out->write(out->context, secret->data(), secret->size());
      return KE_OK;
    });
  }

  std::shared_ptr<HostServices> services_;
  ke_host table_;
};

Error WithExitCode(ErrorClass error_class, std::string message) {
  if (error_class == ErrorClass::kValidation) return BadInput(std::move(message));
  if (error_class == ErrorClass::kUnavailable) return MissingEnvironment(std::move(message));
  return Failed(error_class, std::move(message));
}

// "the node 'acme/clock' of plugin acme_clock"
std::string Describe(const TypeInfo& type) {
  return std::string("the ") + TypeKindName(type.kind) + " '" + type.name + "' of plugin " +
         type.plugin_id;
}

// What a KE_ERROR says; `planned` when it carries one of the closed classes, and not internal.
struct PluginFailure {
  ErrorClass error_class = ErrorClass::kInternal;
  std::string message;  // empty when the plugin did not say
  bool planned = false;
  std::string Why() const { return message.empty() ? " and did not say why" : ": " + message; }
};

PluginFailure ReadFailure(const Sink& sink) {
  const Result<Json> body = Json::Parse(sink.text());
  if (!body.ok() || body->Text("message").empty()) return {};
  PluginFailure failure;
  const std::optional<ErrorClass> known = ParseErrorClass(body->Text("class"));
  failure.error_class = known.value_or(ErrorClass::kInternal);
  failure.message = body->Text("message");
  failure.planned = known && *known != ErrorClass::kInternal;
  return failure;
}

class PluginInstance : public Instance {
 public:
  PluginInstance(TypeInfo type, const ke_type_vtable& vtable, std::unique_ptr<HostTable> host,
                 void* object)
      : type_(std::move(type)), vtable_(vtable), host_(std::move(host)), object_(object) {}
  ~PluginInstance() override { vtable_.destroy(object_); }
  PluginInstance(const PluginInstance&) = delete;
  PluginInstance& operator=(const PluginInstance&) = delete;

  Result<Json> Step(const Json& event) override {
    if (finished_) {
      return Failed(ErrorClass::kInternal,
                    Describe(type_) + " has finished; it takes no more events");
    }
    Result<Json> outcome = Call(event);
    finished_ = !outcome.ok() || !outcome->contains("effects");
    return outcome;
  }

 private:
  Result<Json> Call(const Json& event) {
    const std::string text = event.Dump();
    Sink sink;
    host_->services().Entering(type_, "step");
    if (vtable_.step(object_, Span(text), sink.get()) != KE_OK) {
      const PluginFailure failure = ReadFailure(sink);
      return Failed(failure.error_class, Describe(type_) + " failed" + failure.Why());
    }
    if (sink.overflow()) return Invalid("it is larger than 256 MiB");
    Result<Json> outcome = Json::Parse(sink.text());
    if (!outcome.ok()) return Invalid(outcome.error().message);
    const Status checked = CheckOutcome(type_.kind, *outcome);
    if (!checked.ok()) return Invalid(checked.error().message);
    return outcome;
  }

  Error Invalid(const std::string& why) const {
    return Failed(ErrorClass::kInvalidOutput,
                  Describe(type_) + " gave an outcome that breaks the step protocol: " + why);
  }

  TypeInfo type_;
  const ke_type_vtable& vtable_;
  std::unique_ptr<HostTable> host_;
  void* object_;
  bool finished_ = false;
};

}  // namespace

void HostServices::Log(LogLevel level, std::string_view message) {
  kernel_evolve::Log(level, message);
}
void HostServices::Progress(const Json& /*data*/) {}
bool HostServices::Cancelled() { return false; }
int64_t HostServices::TimeLeftMs() { return -1; }
void HostServices::ReportUsage(const Json& /*usage*/) {}
std::optional<std::string> HostServices::Secret(const std::string& /*name*/) { return {}; }
void HostServices::Entering(const TypeInfo& /*type*/, std::string_view /*what*/) {}

Result<std::unique_ptr<Instance>> CreateInstance(const TypeInfo& type, const ke_type_vtable& vtable,
                                                 const Json& config,
                                                 std::shared_ptr<HostServices> services) {
  auto host = std::make_unique<HostTable>(std::move(services));
  const std::string text = config.Dump();
  void* object = nullptr;
  Sink sink;
  host->services().Entering(type, "create");
  if (vtable.create(host->get(), Span(text), &object, sink.get()) != KE_OK) {
    PluginFailure failure = ReadFailure(sink);
    if (failure.planned) return WithExitCode(failure.error_class, std::move(failure.message));
    return Failed(failure.error_class, Describe(type) + " could not be created" + failure.Why());
  }
  return std::unique_ptr<Instance>(
      std::make_unique<PluginInstance>(type, vtable, std::move(host), object));
}

}  // namespace kernel_evolve
