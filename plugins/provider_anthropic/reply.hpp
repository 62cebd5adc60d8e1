// Reads the answer of a Messages service, streamed or whole.
#pragma once

#include <kernel_evolve/detail/reply_reader.hpp>
#include <kernel_evolve/detail/tool_calls.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace provider_anthropic {

using kernel_evolve::sdk::Events;
using kernel_evolve::sdk::Host;
using kernel_evolve::sdk::json;
namespace detail = kernel_evolve::sdk::detail;

class Reply : public detail::ReplyReader {
 public:
  using ReplyReader::ReplyReader;

  // The canonical response. Throws ServiceError for a refusal or an answer that is none.
  json Finish(bool complete);

 protected:
  bool Answered() const override { return began_; }
  bool Ended() const override { return !stop_reason_.empty(); }
  void OnValue(const json& value, Events& events) override;

 private:
  // One content block; which members are used depends on the type.
  struct Block {
    std::string type;
    std::string text;  // of text, thinking
    std::string signature;
    std::string data;  // of redacted_thinking
    detail::WrittenCall call;
    size_t call_number = 0;  // among the calls
  };

  void OnMessage(const json& message, Events& events);
  void OnBlock(int64_t index, const json& content, Events& events);
  void OnDelta(int64_t index, const json& delta, Events& events);
  void OnUsage(const json& usage);
  json Usage() const;
  std::string FinishReason(bool calls) const;

  std::map<int64_t, Block> blocks_;
  std::map<std::string, int64_t> usage_;
  std::string model_;
  std::string stop_reason_;
  size_t calls_ = 0;
  bool began_ = false;
};

inline std::string Member(const json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                         : std::string();
}

inline json ObjectIn(const json& object, const char* key) {
  return object.contains(key) && object[key].is_object() ? object[key] : json::object();
}

inline void Reply::OnValue(const json& value, Events& events) {
  const std::string type = Member(value, "type");
  // Gateways in front of the service have refusals of other forms.
  if (type == "error" || detail::IsErrorBody(value)) return Fail(value);
  const int64_t index = value.contains("index") && value["index"].is_number_integer()
                            ? value["index"].get<int64_t>()
                            : 0;
  if (type == "message_start") {
    OnMessage(ObjectIn(value, "message"), events);
  } else if (type == "content_block_start") {
    OnBlock(index, ObjectIn(value, "content_block"), events);
  } else if (type == "content_block_delta") {
    OnDelta(index, ObjectIn(value, "delta"), events);
  } else if (type == "message_delta") {
    const std::string reason = Member(ObjectIn(value, "delta"), "stop_reason");
    if (!reason.empty()) stop_reason_ = reason;
    OnUsage(ObjectIn(value, "usage"));
  } else if (type == "message_stop") {
    Done(events);
  } else if (value.contains("content")) {  // a whole answer
    OnMessage(value, events);
  }
  // A ping, a block's end, an event of the future: nothing to learn.
}

inline void Reply::OnMessage(const json& message, Events& events) {
  began_ = true;
  model_ = Member(message, "model");
  stop_reason_ = Member(message, "stop_reason");
  OnUsage(ObjectIn(message, "usage"));
  if (!message.contains("content") || !message["content"].is_array()) return;
  for (size_t i = 0; i < message["content"].size(); ++i) {
    const json& content = message["content"][i];
    if (content.is_object()) OnBlock(static_cast<int64_t>(i), content, events);
  }
}

inline void Reply::OnBlock(int64_t index, const json& content, Events& events) {
  began_ = true;
  Block& block = blocks_[index];
  block.type = Member(content, "type");
  block.data = Member(content, "data");
  if (block.type == "tool_use") {
    block.call.id = Member(content, "id");
    block.call.name = Member(content, "name");
    block.call_number = calls_++;
    events.ToolCall(block.call_number, block.call.name);
    // A stream announces the call with empty input; some services give it all here.
    if (content.contains("input") && !content["input"].empty()) {
      const json& input = content["input"];
      block.call.arguments = input.is_string() ? input.get<std::string>() : Host::Print(input);
      events.Arguments(block.call_number, block.call.arguments);
    }
    return;
  }
  for (const char* key : {"text", "thinking", "signature"}) {
    const std::string piece = Member(content, key);
    if (!piece.empty()) OnDelta(index, {{key, piece}}, events);
  }
}

inline void Reply::OnDelta(int64_t index, const json& delta, Events& events) {
  Block& block = blocks_[index];
  if (const std::string text = Member(delta, "text"); !text.empty()) {
    if (block.type.empty()) block.type = "text";
    block.text += text;
    events.Text(text);
  }
  if (const std::string thinking = Member(delta, "thinking"); !thinking.empty()) {
    if (block.type.empty()) block.type = "thinking";
    block.text += thinking;
    events.Reasoning(thinking);
  }
  block.signature += Member(delta, "signature");
  if (const std::string piece = Member(delta, "partial_json"); !piece.empty()) {
    block.call.arguments += piece;
    if (block.type == "tool_use") events.Arguments(block.call_number, piece);
  }
}

// Counts are cumulative, and some services give the input's only at the end.
inline void Reply::OnUsage(const json& usage) {
  for (const auto& [key, value] : usage.items()) {
    usage_[key] = std::max(usage_[key], detail::TokensOf(value));
  }
}

// `input_tokens` of the service leaves out what its cache took in or gave.
inline json Reply::Usage() const {
  const auto count = [this](const char* key) {
    const auto found = usage_.find(key);
    return found == usage_.end() ? int64_t{0} : found->second;
  };
  const int64_t cached = count("cache_read_input_tokens");
  json out = {
      {"input_tokens", count("input_tokens") + count("cache_creation_input_tokens") + cached},
      {"output_tokens", count("output_tokens")}};
  if (cached > 0) out["cached_tokens"] = cached;
  return out;
}

inline std::string Reply::FinishReason(bool calls) const {
  if (stop_reason_ == "max_tokens" || stop_reason_ == "model_context_window_exceeded") {
    return "length";
  }
  if (stop_reason_ == "refusal") return "content_filter";
  return calls ? "tool_calls" : "stop";
}

inline json Reply::Finish(bool complete) {
  End(complete);
  std::string text;
  std::string reasoning;
  json thinking = json::array();
  detail::CallList calls(quirks());
  for (const auto& [index, block] : blocks_) {
    if (block.type == "text") {
      text += block.text;
    } else if (block.type == "thinking") {
      reasoning += block.text;
      thinking.push_back(
          {{"type", "thinking"}, {"thinking", block.text}, {"signature", block.signature}});
    } else if (block.type == "redacted_thinking") {
      thinking.push_back({{"type", "redacted_thinking"}, {"data", block.data}});
    } else if (block.type == "tool_use") {
      calls.Add(block.call);
    }
  }
  json out = {{"text", text},
              {"reasoning", reasoning},
              {"tool_calls", calls.Take()},
              {"usage", Usage()},
              {"model", model_}};
  out["finish_reason"] = FinishReason(!out["tool_calls"].empty());
  if (!thinking.empty()) out["raw"] = {{"thinking", thinking}};
  quirks().AddTo(&out);
  return out;
}

}  // namespace provider_anthropic
