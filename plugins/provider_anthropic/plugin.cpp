// The provider `anthropic`: the Messages API, at the service itself or at one that speaks its form.
// See README.md.
#include <memory>
#include <string>

#include "reply.hpp"
#include "request.hpp"

namespace {

using namespace kernel_evolve::sdk;

class Anthropic : public Codec {
 public:
  using Codec::Codec;

  HttpRequest Encode(const json& request) override {
    HttpRequest out;
    out.url = Url();
    who_ = "the endpoint " + out.url.substr(0, out.url.find('?'));
    const json body = Body(request);
    const bool stream = body.value("stream", false);
    out.headers = {{"Content-Type", "application/json"},
                   {"Accept", stream ? "text/event-stream" : "application/json"},
                   {"anthropic-version", params().at("anthropic_version")}};
    const std::string key = params().at("api_key");
    if (!key.empty() && key != "none") out.headers["x-api-key"] = key;
    out.SetHeaders(params().at("default_headers"));
    out.body = Host::Print(body);
    return out;
  }

  void Begin(const ResponseHead& head) override {
    reply_ = std::make_unique<provider_anthropic::Reply>(who_);
    reply_->Begin(head);
  }

  void Feed(std::string_view bytes, Events& events) override { reply_->Feed(bytes, events); }

  json Finish(bool complete) override { return reply_->Finish(complete); }

 private:
  std::string Url() const {
    std::string base = params().at("base_url");
    while (!base.empty() && base.back() == '/') base.pop_back();
    const auto ends = [&base](std::string_view end) {
      return base.size() >= end.size() &&
             base.compare(base.size() - end.size(), end.size(), end) == 0;
    };
    if (base.find("/messages") != std::string::npos) return base;
    return base + (ends("/v1") ? "/messages" : "/v1/messages");
  }

  json Body(const json& request) const {
    provider_anthropic::Conversation conversation(params().at("reasoning_echo") == "always");
    for (const json& message : request.at("messages")) conversation.Add(message);
    if (conversation.messages().empty()) {
      throw PluginError("validation",
                        "the request holds no message but the system's; the Messages API needs "
                        "one of the user");
    }
    json body = {{"model", params().at("model")},
                 {"max_tokens", params().at("max_tokens")},
                 {"messages", conversation.messages()}};
    if (!conversation.system().empty()) body["system"] = conversation.system();
    if (params().at("stream").get<bool>() && request.value("stream", true)) body["stream"] = true;
    provider_anthropic::AddSampling(request.value("sampling", json::object()), &body);
    AddTools(request, &body);
    return body;
  }

  void AddTools(const json& request, json* body) const {
    const json tools = request.value("tools", json::array());
    if (tools.empty()) return;
    (*body)["tools"] = provider_anthropic::Tools(tools);
    const json choice = request.value("tool_choice", json("auto"));
    const bool free =
        params().at("required_tool_choice") == "auto" || provider_anthropic::Thinks(*body);
    json made = {{"type", "auto"}};
    if (choice == "none") made = {{"type", "none"}};
    if (choice == "required" && !free) made = {{"type", "any"}};
    if (choice.is_object() && !free) made = {{"type", "tool"}, {"name", choice.at("name")}};
    const json& parallel = params().at("parallel_tools");
    if (parallel.is_boolean() && choice != "none") {
      made["disable_parallel_tool_use"] = !parallel.get<bool>();
    }
    (*body)["tool_choice"] = made;
  }

  std::string who_;
  std::unique_ptr<provider_anthropic::Reply> reply_;
};

json Params() {
  const json properties = {
      {"model", {{"type", "string"}, {"description", "The service's name of the model."}}},
      {"base_url",
       {{"type", "string"},
        {"default", "https://api.anthropic.com"},
        {"description", "Address up to /v1/messages."}}},
      {"api_key",
       {{"type", "string"},
        {"default", "${env:ANTHROPIC_API_KEY}"},
        {"description", "Sent as x-api-key; empty: none is sent."}}},
      {"anthropic_version", {{"type", "string"}, {"default", "2023-06-01"}}},
      {"default_headers",
       {{"type", "object"},
        {"default", json::object()},
        {"description", "Sent with every request."}}},
      {"stream", {{"type", "boolean"}, {"default", true}}},
      {"max_tokens",
       {{"type", "integer"},
        {"minimum", 1},
        {"default", 8192},
        {"description", "Sent where sampling sets none: the service demands one."}}},
      {"required_tool_choice",
       {{"type", "string"},
        {"enum", {"any", "auto"}},
        {"default", "any"},
        {"description",
         "What to send where a tool call is required; auto for models that may not be made to."}}},
      {"parallel_tools",
       {{"type", {"boolean", "null"}}, {"default", nullptr}, {"description", "null: not sent."}}},
      {"reasoning_echo",
       {{"type", "string"},
        {"enum", {"always", "never"}},
        {"default", "always"},
        {"description", "Whether thinking blocks are sent back."}}}};
  return {{"type", "object"},
          {"properties", properties},
          {"required", {"model"}},
          {"additionalProperties", false}};
}

constexpr char kInterface[] = R"({"form": "codec", "capabilities":
    ["tools", "parallel_tools", "streaming", "reasoning_echo"]})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("provider_anthropic", "1.0.0",
                     CodecProvider<Anthropic>("anthropic", "Models behind the Messages API",
                                              Params(), kInterface))
