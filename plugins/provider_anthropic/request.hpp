// The body of a Messages request, from a canonical one.
#pragma once

#include <kernel_evolve/codec.hpp>
#include <kernel_evolve/detail/chat_text.hpp>

#include <string>
#include <utility>

namespace provider_anthropic {

using kernel_evolve::sdk::json;
using kernel_evolve::sdk::PluginError;
namespace detail = kernel_evolve::sdk::detail;

// The service takes ids of these characters only; another model's may have more.
inline std::string SafeId(std::string id) {
  for (char& c : id) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!fine) c = '_';
  }
  return id;
}

class Conversation {
 public:
  // `echo`: whether thinking goes back to where it came from.
  explicit Conversation(bool echo) : echo_(echo) {}

  void Add(const json& message) {
    const std::string role = message.at("role");
    const std::string content = message.value("content", "");
    if (role == "system") {
      if (!content.empty()) system_ += (system_.empty() ? "" : "\n\n") + content;
    } else if (role == "assistant") {
      Append("assistant", AssistantBlocks(message, content));
    } else if (role == "tool") {
      json block = {{"type", "tool_result"},
                    {"tool_use_id", SafeId(message.at("tool_call_id").get<std::string>())}};
      if (!content.empty()) block["content"] = content;
      Append("user", json::array({std::move(block)}));
    } else {
      Append("user", TextBlocks(content));
    }
  }

  const std::string& system() const { return system_; }
  // Roles alternate, beginning with the user's, and no text is blank.
  const json& messages() const { return messages_; }

 private:
  static json TextBlocks(const std::string& text) {
    if (detail::TrimBlank(text).empty()) return json::array();
    return json::array({{{"type", "text"}, {"text", text}}});
  }

  json AssistantBlocks(const json& message, const std::string& content) const {
    json blocks = json::array();
    const json raw = message.value("raw", json());
    if (echo_ && raw.is_object() && raw.contains("thinking") && raw["thinking"].is_array()) {
      blocks = raw["thinking"];
    }
    for (json& block : TextBlocks(content)) blocks.push_back(std::move(block));
    for (const json& call : message.value("tool_calls", json::array())) {
      blocks.push_back({{"type", "tool_use"},
                        {"id", SafeId(call.at("id").get<std::string>())},
                        {"name", call.at("name")},
                        {"input", call.at("arguments")}});
    }
    return blocks;
  }

  void Append(const std::string& role, json blocks) {
    if (blocks.empty()) return;
    if (messages_.empty() || messages_.back()["role"] != role) {
      messages_.push_back({{"role", role}, {"content", json::array()}});
    }
    for (json& block : blocks) messages_.back()["content"].push_back(std::move(block));
  }

  const bool echo_;
  std::string system_;
  json messages_ = json::array();
};

inline json Tools(const json& tools) {
  json out = json::array();
  for (const json& tool : tools) {
    json made = {{"name", tool.at("name")}, {"input_schema", tool.at("parameters")}};
    const std::string description = tool.value("description", "");
    if (!description.empty()) made["description"] = description;
    out.push_back(std::move(made));
  }
  return out;
}

// What the user set and the service knows, under the service's names.
inline void AddSampling(const json& sampling, json* body) {
  const std::pair<const char*, const char*> names[] = {{"temperature", "temperature"},
                                                       {"top_p", "top_p"},
                                                       {"top_k", "top_k"},
                                                       {"max_tokens", "max_tokens"},
                                                       {"stop", "stop_sequences"}};
  for (const auto& [ours, theirs] : names) {
    if (sampling.contains(ours) && !sampling[ours].is_null()) (*body)[theirs] = sampling[ours];
  }
  if (body->contains("stop_sequences") && (*body)["stop_sequences"].is_string()) {
    (*body)["stop_sequences"] = json::array({(*body)["stop_sequences"]});
  }
  if (sampling.contains("extra")) body->update(sampling["extra"]);
}

// A model that thinks may not be made to call a tool.
inline bool Thinks(const json& body) {
  const json thinking = body.value("thinking", json());
  return thinking.is_object() && thinking.value("type", "") != "disabled";
}

}  // namespace provider_anthropic
