#include "transcript.hpp"

#include "conversation.hpp"
#include "shorten.hpp"

namespace kernel_nodes {
namespace {

using nlohmann::json;

constexpr double kShortenTo = 0.6;
// Bytes that stay of what is old.
constexpr size_t kOldResult = 320;
constexpr size_t kOldText = 320;
constexpr size_t kOldArgument = 160;
constexpr size_t kOldRaw = 320;

// Code in arguments is replaced by its number of lines: half a kernel is of no use to anyone.
void ShortenArguments(json* value) {
  if (value->is_string()) {
    const std::string text = *value;
    if (text.size() > kOldArgument) *value = LeftOut(text);
  } else if (value->is_structured()) {
    for (json& part : *value) ShortenArguments(&part);
  }
}

void ShortenText(json* message, const char* key, size_t bytes) {
  const auto found = message->find(key);
  if (found != message->end() && found->is_string()) *found = ShortenEnd(*found, bytes);
}

void ShortenMessage(json* message) {
  const std::string role = message->at("role");
  ShortenText(message, "content", role == "tool" ? kOldResult : kOldText);
  if (role != "assistant") return;
  ShortenText(message, "reasoning", kOldText);
  // What a service wants to see again can't be shortened; only its last turn is demanded.
  if (message->contains("raw") && message->at("raw").dump().size() > kOldRaw) message->erase("raw");
  if (!message->contains("tool_calls")) return;
  for (json& call : message->at("tool_calls")) ShortenArguments(&call["arguments"]);
}

size_t SizeOf(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).size();
}

}  // namespace

Transcript::Transcript(const std::string& task) : task_(task) {
  messages_.push_back(UserMessage(task));
}

void Transcript::Say(const json& response) { messages_.push_back(SaidMessage(response)); }

void Transcript::Ask(const std::string& text) { messages_.push_back(UserMessage(text)); }

void Transcript::Answer(const json& call, const std::string& text) {
  messages_.push_back(ToolMessage(call, text));
}

void Transcript::Note(const std::string& line) {
  json& content = messages_.back().at("content");
  content = content.get<std::string>() + "\n" + line;
}

size_t Transcript::bytes() const { return SizeOf(messages_); }

void Transcript::Shorten(size_t bytes, const std::string& standing) {
  size_t size = this->bytes();
  if (size <= bytes) return;
  size_t last = messages_.size();  // the model's last message: from there on nothing changes
  while (last > 1 && messages_[last - 1].at("role") != "assistant") --last;
  if (last > 0) --last;
  if (!standing.empty()) messages_[0]["content"] = task_ + "\n\n" + standing;
  const auto target = static_cast<size_t>(kShortenTo * static_cast<double>(bytes));
  size = this->bytes();
  for (size_t i = 1; i < last && size > target; ++i) {
    const size_t before = SizeOf(messages_[i]);
    ShortenMessage(&messages_[i]);
    size -= before - SizeOf(messages_[i]);
  }
}

}  // namespace kernel_nodes
