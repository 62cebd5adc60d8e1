// A whole codec for services that speak the Chat Completions form (vLLM, llama.cpp server,
// DeepSeek, Qwen, in-house gateways): derive and override what your service does otherwise.
//
//   class Acme : public ChatCodec {
//    public:
//     using ChatCodec::ChatCodec;
//    protected:
//     void AddHeaders(std::map<std::string, std::string>* headers) const override {
//       (*headers)["X-Acme"] = "1";
//     }
//   };
//   CodecProvider<Acme>("acme", "...", ChatParams({{"region", {{"type", "string"}}}}), kInterface)
//
// What it forgives, and tells in the response's quirks: ids that are missing or come twice, names
// repeated or cut, calls told apart only by index, indexes from 1, empty arguments, arguments as an
// object or encoded twice, values glued together, a finish_reason that is wrong or absent, empty
// choices, errors inside a 200 stream, comments and blank lines, `data:` without a space, `message`
// for `delta`, content as parts, tool calls leaked as text, a whole answer to a streamed request
// and the reverse, errors sent as 500.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernel_evolve/codec.hpp"
#include "kernel_evolve/detail/chat_reply.hpp"

namespace kernel_evolve::sdk {

// The params schema of a ChatCodec, with `more` properties laid over it.
inline json ChatParams(const json& more = json::object()) {
  json properties = {
      {"model", {{"type", "string"}, {"description", "The service's name of the model."}}},
      {"base_url",
       {{"type", "string"},
        {"description", "Address up to /chat/completions, for example .../v1."}}},
      {"api_key",
       {{"type", "string"},
        {"default", ""},
        {"description", "\"${env:NAME}\"; empty: none is sent."}}},
      {"default_headers",
       {{"type", "object"},
        {"default", json::object()},
        {"description", "Sent with every request."}}},
      {"stream", {{"type", "boolean"}, {"default", true}}},
      {"include_usage",
       {{"type", "boolean"}, {"default", true}, {"description", "Asks a stream for its usage."}}},
      {"max_tokens_key",
       {{"type", "string"},
        {"enum", {"max_tokens", "max_completion_tokens"}},
        {"default", "max_tokens"}}},
      {"required_tool_choice",
       {{"type", "string"},
        {"enum", {"required", "auto"}},
        {"default", "required"},
        {"description",
         "What to send where a tool call is required; auto for servers that do not "
         "know the word."}}},
      {"parallel_tools",
       {{"type", {"boolean", "null"}}, {"default", nullptr}, {"description", "null: not sent."}}},
      {"reasoning_echo",
       {{"type", "string"},
        {"enum", {"auto", "always", "never"}},
        {"default", "auto"},
        {"description", "Whether reasoning_content is sent back; auto: with tool calls only."}}},
      {"think_tags",
       {{"type", "boolean"},
        {"default", true},
        {"description", "Splits <think>...</think> off."}}}};
  properties.update(more);
  return {{"type", "object"},
          {"properties", properties},
          {"required", {"model", "base_url"}},
          {"additionalProperties", false}};
}

class ChatCodec : public Codec {
 public:
  using Codec::Codec;

  HttpRequest Encode(const json& request) override {
    tools_ = request.value("tools", json::array());
    stream_ = params().at("stream").get<bool>() && request.value("stream", true);
    HttpRequest out;
    out.url = Url();
    who_ = "the endpoint " + out.url.substr(0, out.url.find('?'));
    out.headers = {{"Content-Type", "application/json"},
                   {"Accept", stream_ ? "text/event-stream" : "application/json"}};
    AddKey(&out.headers);
    AddHeaders(&out.headers);
    out.SetHeaders(params().at("default_headers"));
    out.body = Host::Print(Body(request));
    return out;
  }

  void Begin(const ResponseHead& head) override {
    reply_ = std::make_unique<detail::ChatReply>(tools_, who_);
    reply_->Begin(head);
  }

  void Feed(std::string_view bytes, Events& events) override { reply_->Feed(bytes, events); }

  json Finish(bool complete) override {
    detail::ChatReply::Raw raw = reply_->Finish(complete);
    detail::SplitText split = Split(raw.text);
    json out = {{"text", split.text},          {"reasoning", raw.reasoning + split.reasoning},
                {"tool_calls", raw.calls},     {"usage", raw.usage},
                {"finish_reason", raw.finish}, {"model", raw.model}};
    detail::Quirks& quirks = raw.quirks;
    if (raw.calls.empty() && raw.finish != "length") TakeLeakedCalls(&out, &quirks);
    quirks.NoteIf(split.unpaired && raw.finish != "length", "a reasoning marker has no pair");
    quirks.NoteIf(raw.streamed && !stream_, "a stream comes where a whole answer was asked for");
    quirks.NoteIf(!raw.streamed && stream_, "a whole answer comes where a stream was asked for");
    quirks.AddTo(&out);
    if (!raw.reasoning.empty()) out["raw"] = {{"reasoning_content", raw.reasoning}};
    return out;
  }

 protected:
  virtual std::string Url() const {
    std::string base = params().at("base_url");
    while (!base.empty() && base.back() == '/') base.pop_back();
    const std::string path = "/chat/completions";
    const bool whole = base.find(path) != std::string::npos;
    return whole ? base : base + path;
  }
  virtual void AddKey(std::map<std::string, std::string>* headers) const {
    const std::string key = params().at("api_key");
    if (!key.empty() && key != "none") (*headers)["Authorization"] = "Bearer " + key;
  }
  virtual void AddHeaders(std::map<std::string, std::string>*) const {}
  // Text and reasoning of a whole content.
  virtual detail::SplitText Split(const std::string& content) const {
    if (!params().at("think_tags").get<bool>()) return {content, "", false};
    return detail::SplitReasoning(content, "<think>", "</think>");
  }

  virtual json Body(const json& request) const {
    json body = {{"model", params().at("model")}, {"messages", json::array()}};
    for (const json& message : request.at("messages")) {
      body["messages"].push_back(Message(message));
    }
    if (stream_) {
      body["stream"] = true;
      if (params().at("include_usage").get<bool>()) {
        body["stream_options"] = {{"include_usage", true}};
      }
    }
    AddTools(request, &body);
    AddSampling(request, &body);
    return body;
  }

 private:
  json Message(const json& message) const {
    json out = {{"role", message.at("role")}, {"content", message.value("content", "")}};
    if (message.contains("tool_call_id")) out["tool_call_id"] = message["tool_call_id"];
    if (message.contains("tool_calls") && !message["tool_calls"].empty()) {
      out["tool_calls"] = json::array();
      for (const json& call : message["tool_calls"]) {
        out["tool_calls"].push_back(
            {{"id", call.at("id")},
             {"type", "function"},
             {"function",
              {{"name", call.at("name")}, {"arguments", Host::Print(call.at("arguments"))}}}});
      }
    }
    const std::string echo = params().at("reasoning_echo");
    const json raw = message.value("raw", json::object());
    const bool wanted = echo == "always" || (echo == "auto" && out.contains("tool_calls"));
    if (wanted && raw.is_object() && raw.contains("reasoning_content")) {
      out["reasoning_content"] = raw["reasoning_content"];
    }
    return out;
  }

  void AddTools(const json& request, json* body) const {
    if (tools_.empty()) return;
    (*body)["tools"] = json::array();
    for (const json& tool : tools_) {
      (*body)["tools"].push_back({{"type", "function"},
                                  {"function",
                                   {{"name", tool.at("name")},
                                    {"description", tool.value("description", "")},
                                    {"parameters", tool.at("parameters")}}}});
    }
    const json choice = request.value("tool_choice", json("auto"));
    if (choice.is_object()) {
      (*body)["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice.at("name")}}}};
    } else {
      (*body)["tool_choice"] = choice == "required" ? params().at("required_tool_choice") : choice;
    }
    const json& parallel = params().at("parallel_tools");
    if (parallel.is_boolean()) (*body)["parallel_tool_calls"] = parallel;
  }

  void AddSampling(const json& request, json* body) const {
    const json sampling = request.value("sampling", json::object());
    for (const auto& [key, value] : sampling.items()) {
      if (key == "extra" || value.is_null()) continue;
      const std::string name =
          key == "max_tokens" ? params().at("max_tokens_key").get<std::string>() : key;
      (*body)[name] = value;
    }
    if (request.contains("seed") && !request["seed"].is_null()) (*body)["seed"] = request["seed"];
    if (sampling.contains("extra")) body->update(sampling["extra"]);
  }

  // A server whose tool parser failed hands the call over as text.
  void TakeLeakedCalls(json* out, detail::Quirks* quirks) const {
    const std::vector<detail::LeakedCall> leaked =
        detail::LeakedCalls((*out)["text"].get<std::string>(), tools_);
    for (size_t i = 0; i < leaked.size(); ++i) {
      (*out)["tool_calls"].push_back({{"id", "call_" + std::to_string(i + 1)},
                                      {"name", leaked[i].name},
                                      {"arguments", leaked[i].arguments}});
    }
    if (leaked.empty()) return;
    (*out)["finish_reason"] = "tool_calls";
    quirks->Note("tool calls arrive as text");
  }

  json tools_ = json::array();
  bool stream_ = true;
  std::string who_;
  std::unique_ptr<detail::ChatReply> reply_;
};

}  // namespace kernel_evolve::sdk
