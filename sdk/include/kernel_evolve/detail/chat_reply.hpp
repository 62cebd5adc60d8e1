// Reads the answer of a Chat Completions service, streamed or whole, and forgives what servers get
// wrong. Part of chat_codec.hpp.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel_evolve/detail/reply_reader.hpp"
#include "kernel_evolve/detail/tool_calls.hpp"

namespace kernel_evolve::sdk::detail {

class ChatReply : public ReplyReader {
 public:
  // `tools` are the request's, canonical. `who` names the endpoint in sentences.
  ChatReply(json tools, std::string who) : ReplyReader(std::move(who)), tools_(std::move(tools)) {}

  // What came, with text and reasoning not yet told apart by markers.
  struct Raw {
    std::string text;
    std::string reasoning;  // that came in a field of its own
    std::string finish;
    std::string model;
    json usage = json::object();
    json calls = json::array();  // canonical
    bool streamed = false;
    Quirks quirks;
  };

  // Throws ServiceError for a refusal, an error inside the stream, a reply that is none.
  Raw Finish(bool complete) {
    End(complete);
    // DeepSeek and vLLM say in this way that they gave up.
    if (finish_ == "insufficient_system_resource" || finish_ == "abort" || finish_ == "error") {
      throw ServiceError("unavailable", who() + " stopped its answer with '" + finish_ + "'");
    }
    Raw out;
    out.text = text_;
    out.reasoning = reasoning_;
    out.model = model_;
    out.usage = usage_;
    out.calls = Calls();
    out.finish = FinishReason(!out.calls.empty());
    out.streamed = streamed();
    out.quirks = quirks();
    return out;
  }

 protected:
  bool Answered() const override { return had_choice_; }
  bool Ended() const override { return !finish_.empty(); }

  void OnValue(const json& chunk, Events& events) override {
    if (IsErrorBody(chunk)) return Fail(chunk);
    if (model_.empty() && chunk.contains("model")) model_ = TextOf(chunk["model"]);
    if (chunk.contains("usage") && chunk["usage"].is_object()) usage_ = Usage(chunk["usage"]);
    if (!chunk.contains("choices") || !chunk["choices"].is_array()) return;
    if (chunk["choices"].empty() || !chunk["choices"][0].is_object()) return;
    had_choice_ = true;
    const json& choice = chunk["choices"][0];
    for (const char* key : {"delta", "message"}) {
      if (!choice.contains(key) || !choice[key].is_object()) continue;
      quirks().NoteIf(
          (key == std::string_view("delta")) != streamed(),
          streamed() ? "a stream says message for delta" : "a whole answer says delta for message");
      OnDelta(choice[key], events);
    }
    if (choice.contains("text")) OnText(choice["text"], events);
    if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) {
      const std::string finish = choice["finish_reason"];
      if (!finish.empty()) finish_ = finish;  // "" comes in every delta of some
    }
    if (choice.contains("usage") && choice["usage"].is_object()) {
      quirks().Note("usage stands within the choice");
      usage_ = Usage(choice["usage"]);
    }
  }

 private:
  static constexpr size_t kLongestName = 256;  // bytes; a longer one is not put together further

  struct GrowingCall : WrittenCall {
    Brackets brackets;  // of the arguments so far
  };

  static int64_t Count(const json& object, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (object.contains(key) && object[key].is_number()) return TokensOf(object[key]);
    }
    return 0;
  }

  static json Usage(const json& given) {
    json out = {{"input_tokens", Count(given, {"prompt_tokens", "input_tokens"})},
                {"output_tokens", Count(given, {"completion_tokens", "output_tokens"})}};
    int64_t cached = Count(given, {"prompt_cache_hit_tokens", "cached_tokens"});
    if (given.contains("prompt_tokens_details") && given["prompt_tokens_details"].is_object()) {
      cached = Count(given["prompt_tokens_details"], {"cached_tokens"});
    }
    if (cached > 0) out["cached_tokens"] = cached;
    return out;
  }

  void OnText(const json& content, Events& events) {
    if (content.is_string()) {
      const std::string piece = content;
      if (!piece.empty()) events.Text(piece);
      text_ += piece;
    } else if (content.is_array()) {
      quirks().Note("content is a list of parts");
      for (const json& part : content) {
        if (part.is_object() && part.contains("text")) OnText(part["text"], events);
        if (part.is_string()) OnText(part, events);
      }
    }
  }

  void OnDelta(const json& delta, Events& events) {
    if (delta.contains("content")) OnText(delta["content"], events);
    for (const char* key : {"reasoning_content", "reasoning"}) {
      if (!delta.contains(key) || !delta[key].is_string()) continue;
      const std::string piece = delta[key];
      if (!piece.empty()) events.Reasoning(piece);
      reasoning_ += piece;
      break;
    }
    if (delta.contains("tool_calls") && delta["tool_calls"].is_array()) {
      for (size_t i = 0; i < delta["tool_calls"].size(); ++i) {
        const json& call = delta["tool_calls"][i];
        if (call.is_object()) OnCall(call, i, events);
      }
    }
    if (delta.contains("function_call") && delta["function_call"].is_object()) {
      quirks().Note("a tool call comes as function_call, the old form");
      OnCall({{"index", 0}, {"function", delta["function_call"]}}, 0, events);
    }
  }

  // Which call a delta belongs to: by index where there is one, else by id, else by its place.
  size_t SlotOf(const json& delta, const std::string& name, size_t place) {
    const std::string id = delta.contains("id") ? TextOf(delta["id"]) : std::string();
    const bool indexed = delta.contains("index") && delta["index"].is_number_integer();
    if (!indexed && !id.empty()) {
      for (size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].id == id) return i;
      }
    }
    const int64_t index = indexed ? delta["index"].get<int64_t>() : static_cast<int64_t>(place);
    const auto found = slots_.find(index);
    quirks().NoteIf(streamed() && !indexed, "tool calls have no index");
    quirks().NoteIf(indexed && calls_.empty() && index != 0, "tool calls are not counted from 0");
    if (found != slots_.end() && !BeginsAnother(calls_[found->second], id, name)) {
      return found->second;
    }
    quirks().NoteIf(indexed && found != slots_.end(), "several tool calls have the same index");
    // One more than an answer may hold is enough to refuse it.
    if (calls_.size() <= kMostCalls) calls_.push_back({});
    slots_[index] = calls_.size() - 1;
    return calls_.size() - 1;
  }

  // Whether a delta that comes in a call's place is another call: some servers give every call the
  // same index, or none. A new id alone does not say so, since others make one up for each delta.
  bool BeginsAnother(const GrowingCall& call, const std::string& id,
                     const std::string& name) const {
    if (name.empty()) return false;
    if (name != call.name && IsOffered(tools_, name) && IsOffered(tools_, call.name)) return true;
    const bool other_id = !id.empty() && !call.id.empty() && id != call.id;
    return other_id && call.brackets.Closed();
  }

  static std::string NameIn(const json& function) {
    const bool named = function.contains("name") && function["name"].is_string();
    return named ? function["name"].get<std::string>() : std::string();
  }

  void OnCall(const json& delta, size_t place, Events& events) {
    const json& function = delta.contains("function") ? delta["function"] : delta;
    if (!function.is_object()) return;
    const std::string name = NameIn(function);
    const size_t slot = SlotOf(delta, name, place);
    GrowingCall& call = calls_[slot];
    const std::string id = delta.contains("id") ? TextOf(delta["id"]) : std::string();
    if (call.id.empty()) call.id = id;
    quirks().NoteIf(!id.empty() && id != call.id, "a tool call's id changes on the way");
    // Repeated in every delta by some, cut into pieces by others.
    const bool named = !call.name.empty() && !name.empty();
    const bool whole = call.name == name || IsOffered(tools_, call.name);
    const bool grows = !name.empty() && call.name.size() < kLongestName;
    const bool appended = grows && (!whole || IsOffered(tools_, call.name + name));
    quirks().NoteIf(named,
                    appended ? "a tool's name comes in pieces" : "a tool's name is repeated");
    if (appended) {
      call.name += name;
      events.ToolCall(slot, call.name);
    }
    if (!function.contains("arguments") || function["arguments"].is_null()) return;
    const json& arguments = function["arguments"];
    quirks().NoteIf(!arguments.is_string(), "arguments are an object where a text belongs");
    const std::string piece =
        arguments.is_string() ? arguments.get<std::string>() : Host::Print(arguments);
    if (!piece.empty()) events.Arguments(slot, piece);
    call.arguments += piece;
    call.brackets.Take(piece);
  }

  json Calls() {
    CallList list(quirks());
    for (const WrittenCall& call : calls_) {
      if (call.name.empty() && call.arguments.empty()) continue;  // an announcement of nothing
      list.Add(call);
    }
    return list.Take();
  }

  std::string FinishReason(bool calls) {
    quirks().NoteIf(finish_.empty(), "finish_reason is missing");
    if (finish_ == "length" || finish_ == "max_tokens") return "length";
    if (finish_ == "content_filter") return "content_filter";
    const bool says_calls = finish_ == "tool_calls" || finish_ == "function_call";
    quirks().NoteIf(calls && !says_calls && !finish_.empty(),
                    "finish_reason does not tell of the tool calls");
    quirks().NoteIf(!calls && says_calls, "finish_reason tells of tool calls, and there is none");
    return calls ? "tool_calls" : "stop";
  }

  const json tools_;
  std::string text_;
  std::string reasoning_;
  std::string finish_;
  std::string model_;
  json usage_ = json::object();
  std::vector<GrowingCall> calls_;
  std::map<int64_t, size_t> slots_;
  bool had_choice_ = false;
};

}  // namespace kernel_evolve::sdk::detail
