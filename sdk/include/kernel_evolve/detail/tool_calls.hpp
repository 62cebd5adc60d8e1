// From what a model wrote as a tool call's arguments to canonical tool calls. Part of the codec
// helpers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernel_evolve/detail/chat_text.hpp"
#include "kernel_evolve/detail/quirks.hpp"

namespace kernel_evolve::sdk::detail {

// One call as it came: the arguments are text, maybe none, maybe broken.
struct WrittenCall {
  std::string id;
  std::string name;
  std::string arguments;
};

// Gathers canonical calls whose ids are there and distinct. Throws ServiceError for more than
// kMostCalls: a model that has run away.
class CallList {
 public:
  // What is forgiven is told to `quirks`.
  explicit CallList(Quirks& quirks) : quirks_(quirks) {}

  void Add(const WrittenCall& written) {
    quirks_.NoteIf(written.id.empty(), "a tool call has no id");
    quirks_.NoteIf(Taken(written.id), "two tool calls have the same id");
    const std::string_view text = TrimBlank(written.arguments);
    if (text.empty() || text == "null") {
      quirks_.Note("arguments are empty where {} belongs");
      return Append(written, json::object());
    }
    json arguments = ReadJson(text);
    if (arguments.is_string()) {
      quirks_.Note("arguments are encoded twice");
      arguments = ReadJson(arguments.get<std::string>());
    }
    if (arguments.is_object()) return Append(written, std::move(arguments));
    AddGlued(written);
  }

  json Take() { return std::move(calls_); }

 private:
  // Several objects are several calls; the same one twice is one, and an empty one beside others is
  // the beginning that some servers send before they know better.
  void AddGlued(const WrittenCall& written) {
    const std::vector<json> glued = GluedObjects(written.arguments);
    bool added = false;
    for (size_t i = 0; i < glued.size(); ++i) {
      if (glued[i].empty() || (i > 0 && glued[i] == glued[i - 1])) continue;
      Append(written, glued[i]);
      added = true;
    }
    if (added) return quirks_.Note("arguments are several values glued together");
    Append(written, json::object());
    if (glued.empty()) calls_.back()["malformed"] = written.arguments;
  }

  void Append(const WrittenCall& written, json arguments) {
    if (calls_.size() >= kMostCalls) {
      throw ServiceError("invalid_output", "the model's answer holds more than " +
                                               std::to_string(kMostCalls) + " tool calls");
    }
    std::string id = written.id;
    for (size_t n = calls_.size() + 1; id.empty() || Taken(id); ++n) {
      id = "call_" + std::to_string(n);
    }
    calls_.push_back({{"id", id}, {"name", written.name}, {"arguments", std::move(arguments)}});
  }

  bool Taken(const std::string& id) const {
    for (const json& call : calls_) {
      if (call["id"] == id) return true;
    }
    return false;
  }

  Quirks& quirks_;
  json calls_ = json::array();
};

}  // namespace kernel_evolve::sdk::detail
