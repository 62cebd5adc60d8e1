#include "core/plugin/codec_instance.hpp"

#include <string>
#include <utility>

#include "core/plugin/boundary.hpp"

namespace kernel_evolve {
namespace {

class PluginCodec : public Codec {
 public:
  PluginCodec(TypeInfo type, const ke_type& offered, std::unique_ptr<HostTable> host, void* object)
      : type_(std::move(type)),
        vtable_(*offered.vtable),
        codec_(*offered.codec),
        host_(std::move(host)),
        object_(object) {}
  ~PluginCodec() override { vtable_.destroy(object_); }
  PluginCodec(const PluginCodec&) = delete;
  PluginCodec& operator=(const PluginCodec&) = delete;

  Result<EncodedRequest> Encode(const Json& request) override {
    const std::string text = request.Dump();
    Sink head;
    Sink body;
    host_->services().Entering(type_, "encode");
    if (codec_.encode(object_, Span(text), head.get(), body.get()) != KE_OK) return Failure(head);
    if (head.overflow() || body.overflow()) return Invalid("encode", "it is larger than 256 MiB");
    const Result<Json> parsed = Json::Parse(head.text());
    if (!parsed) return Invalid("encode", parsed.error().message);
    const Json& json = *parsed;
    EncodedRequest out;
    out.method = json.Text("method");
    out.url = json.Text("url");
    if (out.method.empty() || out.url.empty() || !json["headers"].is_object()) {
      return Invalid("encode", "a request has a method, a url and headers");
    }
    for (const auto& [name, value] : json["headers"].object()) {
      if (!value.is_string()) return Invalid("encode", "the header '" + name + "' is no text");
      out.headers.emplace_back(name, value.string());
    }
    out.body = std::move(body.text());
    return out;
  }

  Status Begin(const Json& head) override {
    const std::string text = head.Dump();
    Sink sink;
    if (codec_.begin(object_, Span(text), sink.get()) != KE_OK) return Failure(sink);
    return {};
  }

  Status Feed(std::string_view bytes, std::string* events) override {
    Sink sink;
    if (codec_.feed(object_, Span(bytes), sink.get()) != KE_OK) return Failure(sink);
    if (sink.overflow()) return Invalid("feed", "it is larger than 256 MiB");
    events->append(sink.text());
    return {};
  }

  Result<Json> Finish(bool complete) override {
    const std::string text = complete ? R"({"complete":true})" : R"({"complete":false})";
    Sink sink;
    if (codec_.finish(object_, Span(text), sink.get()) != KE_OK) return Failure(sink);
    if (sink.overflow()) return Invalid("finish", "it is larger than 256 MiB");
    Result<Json> outcome = Json::Parse(sink.text());
    if (!outcome) return Invalid("finish", outcome.error().message);
    const Json& response = std::as_const(*outcome)["response"];
    const Json& error = std::as_const(*outcome)["error"];
    const bool failed =
        error.is_object() && ParseErrorClass(error.Text("class")) && !error.Text("message").empty();
    if (outcome->size() != 1 || response.is_object() == failed) {
      return Invalid("finish",
                     "expected either {\"response\": {...}} or {\"error\": {\"class\", "
                     "\"message\"}}");
    }
    return outcome;
  }

 private:
  // A planned failure is the codec's own sentence, any other names the plugin.
  Error Failure(const Sink& sink) const {
    const PluginFailure failure = ReadFailure(sink);
    if (failure.planned) return Failed(failure.error_class, failure.message);
    return Failed(failure.error_class, Describe(type_) + " failed" + failure.Why());
  }
  Error Invalid(const std::string& where, const std::string& why) const {
    return Failed(ErrorClass::kInternal,
                  Describe(type_) + " breaks the codec protocol in " + where + ": " + why);
  }

  TypeInfo type_;
  const ke_type_vtable& vtable_;
  const ke_codec_vtable& codec_;
  std::unique_ptr<HostTable> host_;
  void* object_;
};

}  // namespace

Result<std::unique_ptr<Codec>> CreateCodecInstance(const TypeInfo& type, const ke_type& offered,
                                                   const Json& config,
                                                   std::shared_ptr<HostServices> services) {
  auto host = std::make_unique<HostTable>(std::move(services));
  const Result<void*> object = CreateObject(type, *offered.vtable, config, *host);
  if (!object) return object.error();
  return std::unique_ptr<Codec>(
      std::make_unique<PluginCodec>(type, offered, std::move(host), *object));
}

}  // namespace kernel_evolve
