// The C++17 face of a codec: a provider that speaks to a service over HTTP. Write a class that
// turns a canonical request into an HTTP request and the response's bytes into a canonical
// response; the host does the rest (connections, TLS, waiting, retries, limits, secrets,
// recording).
//
//   class Acme : public Codec {
//    public:
//     using Codec::Codec;  // (const Config&, const Host&): throw PluginError to refuse
//     HttpRequest Encode(const json& request) override;
//     void Begin(const ResponseHead& head) override;
//     void Feed(std::string_view bytes, Events& events) override;
//     json Finish(bool complete) override;  // the response; throw ServiceError or PluginError
//   };
//   KERNEL_EVOLVE_PLUGIN("provider_acme", "1.0.0", CodecProvider<Acme>("acme", "Acme's models",
//       kParams, R"({"form": "codec", "capabilities": ["tools", "streaming"]})"))
//
// One object serves one call: Encode once, then for each attempt Begin, Feed, Finish, all from one
// thread at a time. chat_codec.hpp is a whole codec for services like Chat Completions.
#pragma once

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernel_evolve/plugin.hpp"

namespace kernel_evolve::sdk {

// What to send. Header values and the address may hold `${env:NAME}`: the host fills in what the
// profile declares, just before sending, so that a codec never sees a secret.
struct HttpRequest {
  std::string method = "POST";
  std::string url;
  std::map<std::string, std::string> headers;
  std::string body;

  // Replaces a header whose name differs in case only.
  void SetHeader(const std::string& name, const std::string& value) {
    const auto same = [&name](const std::string& other) {
      return std::equal(
          name.begin(), name.end(), other.begin(), other.end(),
          [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
    };
    for (auto header = headers.begin(); header != headers.end();) {
      header = same(header->first) ? headers.erase(header) : std::next(header);
    }
    headers[name] = value;
  }
  // Lays `given` over the headers: a profile's default_headers, names and texts.
  void SetHeaders(const json& given) {
    for (const auto& [name, value] : given.items()) {
      if (!value.is_string()) {
        throw PluginError("validation", "default_headers." + name + ": expected text");
      }
      SetHeader(name, value);
    }
  }
};

struct ResponseHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// A service's refusal. Without `retry` the host decides by the class: rate_limit, unavailable,
// communication and timeout may pass by themselves.
class ServiceError : public PluginError {
 public:
  ServiceError(std::string error_class, const std::string& message,
               std::optional<bool> retry = std::nullopt,
               std::optional<double> retry_after_s = std::nullopt)
      : PluginError(std::move(error_class), message), retry_(retry), wait_(retry_after_s) {}
  std::optional<bool> retry() const { return retry_; }
  std::optional<double> retry_after_s() const { return wait_; }

 private:
  std::optional<bool> retry_;
  std::optional<double> wait_;
};

// Where Feed says what has arrived. The host shows it as progress; the response itself comes from
// Finish.
class Events {
 public:
  void Text(std::string_view text) { Add("text", ",\"text\":", text); }
  void Reasoning(std::string_view text) { Add("reasoning", ",\"text\":", text); }
  void ToolCall(size_t index, std::string_view name) {
    Add("tool_call", ",\"index\":" + std::to_string(index) + ",\"name\":", name);
  }
  void Arguments(size_t index, std::string_view text) {
    Add("arguments", ",\"index\":" + std::to_string(index) + ",\"text\":", text);
  }
  // The answer is whole: the host need not wait for the connection's end.
  void End() { lines_ += "{\"type\":\"end\"}\n"; }
  const std::string& lines() const { return lines_; }

 private:
  // Written without a JSON object in between: there is one for every few bytes that arrive.
  void Add(std::string_view type, std::string_view fields, std::string_view text) {
    lines_.append("{\"type\":\"").append(type).append("\"").append(fields);
    lines_.append(Host::Print(text)).append("}\n");
  }
  std::string lines_;
};

class Codec {
 public:
  Codec(Config config, const Host& host) : config_(std::move(config)), host_(host) {}
  virtual ~Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  virtual HttpRequest Encode(const json& request) = 0;
  virtual void Begin(const ResponseHead& head) = 0;
  virtual void Feed(std::string_view bytes, Events& events) = 0;
  virtual json Finish(bool complete) = 0;

 protected:
  const json& params() const { return config_.params; }
  const Host& host() const { return host_; }

 private:
  Config config_;
  Host host_;
};

namespace detail {

template <typename T>
ke_status CreateCodec(const ke_host* host, ke_span config, void** instance, const ke_sink* error) {
  return Guard(error, [&] {
    json given = Parse(config);
    Config made;
    if (given.contains("params")) made.params = std::move(given["params"]);
    if (given.contains("context")) made.context = std::move(given["context"]);
    std::unique_ptr<Codec> object = std::make_unique<T>(made, Host(host));
    *instance = object.release();
  });
}

inline ke_status StepCodec(void*, ke_span, const ke_sink* outcome) {
  return Guard(outcome, [] { throw PluginError("internal", "a codec takes no steps"); });
}

inline void DestroyCodec(void* instance) { delete static_cast<Codec*>(instance); }

inline ke_status Encode(void* instance, ke_span request, const ke_sink* head, const ke_sink* body) {
  return Guard(head, [&] {
    const HttpRequest made = static_cast<Codec*>(instance)->Encode(Parse(request));
    WriteText(head,
              Host::Print({{"method", made.method}, {"url", made.url}, {"headers", made.headers}}));
    WriteText(body, made.body);
  });
}

inline ke_status Begin(void* instance, ke_span head, const ke_sink* error) {
  return Guard(error, [&] {
    const json given = Parse(head);
    static_cast<Codec*>(instance)->Begin(
        {given.at("status"), given.at("headers").get<std::map<std::string, std::string>>()});
  });
}

inline ke_status Feed(void* instance, ke_span bytes, const ke_sink* events) {
  return Guard(events, [&] {
    Events made;
    static_cast<Codec*>(instance)->Feed({bytes.data, bytes.size}, made);
    if (!made.lines().empty()) WriteText(events, made.lines());
  });
}

inline ke_status Finish(void* instance, ke_span end, const ke_sink* outcome) {
  return Guard(outcome, [&] {
    json out;
    try {
      out["response"] = static_cast<Codec*>(instance)->Finish(Parse(end).at("complete"));
    } catch (const ServiceError& e) {
      out = {{"error", ErrorBody(e.error_class(), e.what())}};
      if (e.retry()) out["error"]["retry"] = *e.retry();
      if (e.retry_after_s()) out["error"]["retry_after_s"] = *e.retry_after_s();
    } catch (const PluginError& e) {
      out = {{"error", ErrorBody(e.error_class(), e.what())}};
    }
    WriteText(outcome, Host::Print(out));
  });
}

template <typename T>
const ke_type_vtable* CodecTypeVtable() {
  static constexpr ke_type_vtable kTable = {sizeof(ke_type_vtable), &CreateCodec<T>, &StepCodec,
                                            &DestroyCodec};
  return &kTable;
}

inline const ke_codec_vtable* CodecVtable() {
  static constexpr ke_codec_vtable kTable = {sizeof(ke_codec_vtable), &Encode, &Begin, &Feed,
                                             &Finish};
  return &kTable;
}

}  // namespace detail

// T takes (const Config&, const Host&) and is a Codec. `interface` says "form": "codec".
template <typename T>
TypeSpec CodecProvider(std::string name, std::string summary, JsonText params_schema,
                       JsonText interface) {
  return {KE_KIND_PROVIDER,         std::move(name),      std::move(summary),
          std::move(params_schema), std::move(interface), detail::CodecTypeVtable<T>(),
          detail::CodecVtable()};
}

}  // namespace kernel_evolve::sdk
