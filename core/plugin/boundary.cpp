#include "core/plugin/boundary.hpp"

#include <optional>
#include <utility>

namespace kernel_evolve {
namespace {

// A larger answer is a runaway plugin.
constexpr size_t kMaxAnswer = 256U << 20U;

std::string_view View(ke_span span) {
  return span.data == nullptr ? std::string_view() : std::string_view(span.data, span.size);
}

template <typename R, typename Call>
R Guarded(R fallback, Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return fallback;
  }
}
HostServices& Of(void* context) { return *static_cast<HostServices*>(context); }

void Log(void* context, ke_log_level level, ke_span message) {
  const auto known = level < KE_LOG_DEBUG || level > KE_LOG_ERROR ? KE_LOG_INFO : level;
  Guarded(0, [&] {
    Of(context).Log(static_cast<LogLevel>(known), View(message));
    return 0;
  });
}
void Progress(void* context, ke_span json) {
  Guarded(0, [&] {
    const Result<Json> data = Json::Parse(View(json));
    if (data.ok()) Of(context).Progress(*data);
    return 0;
  });
}
int Cancelled(void* context) {
  return Guarded(0, [&] { return Of(context).Cancelled() ? 1 : 0; });
}
int64_t TimeLeftMs(void* context) {
  return Guarded(int64_t{-1}, [&] { return Of(context).TimeLeftMs(); });
}
void ReportUsage(void* context, ke_span json) {
  Guarded(0, [&] {
    const Result<Json> usage = Json::Parse(View(json));
    if (usage.ok()) Of(context).ReportUsage(*usage);
    return 0;
  });
}
ke_status Secret(void* context, ke_span name, const ke_sink* out) {
  return Guarded(KE_ERROR, [&] {
    const std::optional<std::string> secret = Of(context).Secret(std::string(View(name)));
    if (!secret) return KE_ERROR;
    out->write(out->context, secret->data(), secret->size());
    return KE_OK;
  });
}

Error WithExitCode(ErrorClass error_class, std::string message) {
  if (error_class == ErrorClass::kValidation) return BadInput(std::move(message));
  if (error_class == ErrorClass::kUnavailable) return MissingEnvironment(std::move(message));
  return Failed(error_class, std::move(message));
}

}  // namespace

void Sink::Write(void* context, const char* data, size_t size) noexcept {
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

HostTable::HostTable(std::shared_ptr<HostServices> services) : services_(std::move(services)) {
  table_ = {sizeof(ke_host), KE_ABI_MAJOR, KE_ABI_MINOR, services_.get(), &Log,
            &Progress,       &Cancelled,   &TimeLeftMs,  &ReportUsage,    &Secret};
}

std::string Describe(const TypeInfo& type) {
  return std::string("the ") + TypeKindName(type.kind) + " '" + type.name + "' of plugin " +
         type.plugin_id;
}

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

Result<void*> CreateObject(const TypeInfo& type, const ke_type_vtable& vtable, const Json& config,
                           HostTable& host) {
  const std::string text = config.Dump();
  void* object = nullptr;
  Sink sink;
  host.services().Entering(type, "create");
  if (vtable.create(host.get(), Span(text), &object, sink.get()) == KE_OK) return object;
  PluginFailure failure = ReadFailure(sink);
  if (failure.planned) return WithExitCode(failure.error_class, std::move(failure.message));
  return Failed(failure.error_class, Describe(type) + " could not be created" + failure.Why());
}

void HostServices::Log(LogLevel level, std::string_view message) {
  kernel_evolve::Log(level, message);
}
void HostServices::Progress(const Json& /*data*/) {}
bool HostServices::Cancelled() { return false; }
int64_t HostServices::TimeLeftMs() { return -1; }
void HostServices::ReportUsage(const Json& /*usage*/) {}
std::optional<std::string> HostServices::Secret(const std::string& /*name*/) { return {}; }
void HostServices::Entering(const TypeInfo& /*type*/, std::string_view /*what*/) {}

}  // namespace kernel_evolve
