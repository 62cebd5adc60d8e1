// What hides in a model's text: reasoning between markers, and tool calls that the server did not
// take out. Part of chat_codec.hpp. Pure functions over whole texts, so that the way in which a
// stream was cut cannot matter.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel_evolve/detail/read_json.hpp"

namespace kernel_evolve::sdk::detail {

struct SplitText {
  std::string text;
  std::string reasoning;
  bool unpaired = false;  // one of the markers is missing
};

// Takes what stands between `open` and `close` out as reasoning; every byte but the markers is kept
// in one of the two. A close without an open ends a reasoning that began with the text; an open
// without a close begins one that goes to the end.
inline SplitText SplitReasoning(std::string_view all, std::string_view open,
                                std::string_view close) {
  SplitText out;
  bool inside = false;
  if (const size_t end = all.find(close); end != std::string_view::npos) {
    inside = all.find(open) > end;  // the opening marker is missing
  }
  out.unpaired = inside;
  for (size_t at = 0; at < all.size();) {
    const std::string_view marker = inside ? close : open;
    size_t end = all.find(marker, at);
    const bool found = end != std::string_view::npos;
    if (!found) end = all.size();
    (inside ? out.reasoning : out.text).append(all.substr(at, end - at));
    at = end + (found ? marker.size() : 0);
    if (found) inside = !inside;
  }
  out.unpaired = out.unpaired || inside;
  return out;
}

// The length of the JSON value that `text` begins with; 0 when it begins with none or it is cut.
inline size_t ValueLength(std::string_view text) {
  Brackets brackets;
  for (size_t i = 0; i < text.size(); ++i) {
    brackets.Take(text[i]);
    if (brackets.Closed()) return text[i] == '}' || text[i] == ']' ? i + 1 : 0;
  }
  return 0;
}

// The values of a text that is nothing but JSON objects glued together; empty when it is not, or
// holds more than an answer may.
inline std::vector<json> GluedObjects(std::string_view text) {
  std::vector<json> out;
  for (text = TrimBlank(text); !text.empty(); text = TrimBlank(text)) {
    const size_t length = ValueLength(text);
    json value = ReadJson(text.substr(0, length));
    if (length == 0 || !value.is_object() || out.size() >= kMostCalls) return {};
    out.push_back(std::move(value));
    text.remove_prefix(length);
    while (!text.empty() && (text.front() == ',' || text.front() == ';')) text.remove_prefix(1);
  }
  return out;
}

struct LeakedCall {
  std::string name;
  json arguments;
};

inline bool IsOffered(const json& tools, const std::string& name) {
  for (const json& tool : tools) {
    if (tool.value("name", "") == name) return true;
  }
  return false;
}

// {"name", "arguments" | "parameters"}, or {"function": {...}} of it.
inline bool ReadCall(const json& value, const json& tools, std::vector<LeakedCall>* out) {
  if (!value.is_object()) return false;
  if (value.contains("function") && value["function"].is_object()) {
    return ReadCall(value["function"], tools, out);
  }
  if (!value.contains("name") || !value["name"].is_string()) return false;
  json arguments = json::object();
  for (const char* key : {"arguments", "parameters"}) {
    if (value.contains(key)) arguments = value[key];
  }
  if (arguments.is_string()) {
    arguments = ReadJson(arguments.get<std::string>());
  }
  if (!arguments.is_object() || !IsOffered(tools, value["name"])) return false;
  out->push_back({value["name"], std::move(arguments)});
  return true;
}

// Qwen3-Coder: <parameter=name>\nvalue\n</parameter>, until the function's end. Values are text,
// or JSON where the tool's schema wants no string.
inline json TaggedParameters(std::string_view text, const json& tools, const std::string& name) {
  constexpr std::string_view kOpen = "<parameter=";
  constexpr std::string_view kClose = "</parameter>";
  json out = json::object();
  text = text.substr(0, text.find("</function>"));
  for (size_t at = text.find(kOpen); at != std::string_view::npos; at = text.find(kOpen, at)) {
    at += kOpen.size();
    const size_t begin = text.find('>', at);
    const size_t end = text.find(kClose, at);
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
    const std::string key(text.substr(at, begin - at));
    std::string_view value = text.substr(begin + 1, end - begin - 1);
    if (!value.empty() && value.front() == '\n') value.remove_prefix(1);
    if (!value.empty() && value.back() == '\n') value.remove_suffix(1);
    out[key] = std::string(value);
    for (const json& tool : tools) {
      if (tool.value("name", "") != name || !tool.contains("parameters")) continue;
      const json schema = tool["parameters"].value("properties", json::object());
      const json type = schema.value(key, json::object()).value("type", json("string"));
      json parsed = ReadJson(value);
      if (type != "string" && !parsed.is_discarded()) out[key] = std::move(parsed);
    }
    at = end;
  }
  return out.empty() ? json() : out;
}

// Finds calls in the forms in which servers leak them. A mark may begin anywhere and its value may
// never end, so that a text of marks alone would be read once for each: after kMostPasses over the
// text in all, nothing more is found.
class LeakedCallFinder {
 public:
  LeakedCallFinder(std::string_view text, const json& tools)
      : text_(text), tools_(tools), left_(kMostPasses * text.size()) {}

  std::vector<LeakedCall> Find() {
    InFunctionTags();
    if (out_.empty()) BehindSeparators();
    for (const std::string_view mark :
         {"<tool_call>", "[TOOL_CALLS]", "[unused11]", "```json", "```"}) {
      if (out_.empty()) Behind(mark);
    }
    if (out_.empty()) AsTheWholeText();
    return std::move(out_);
  }

 private:
  static constexpr size_t kMostPasses = 16;

  // Whether `size` bytes more may be read.
  bool Spend(size_t size) {
    const bool enough = size <= left_ && out_.size() < kMostCalls;
    left_ -= std::min(size, left_);
    return enough;
  }

  // The value that `rest` begins with; discarded when there is none.
  json ValueAt(std::string_view rest) {
    rest = rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    const bool begins = !rest.empty() && (rest[0] == '{' || rest[0] == '[');
    if (!begins || left_ == 0) return json(json::value_t::discarded);
    const size_t length = ValueLength(rest.substr(0, left_));
    Spend(length == 0 ? rest.size() : length);
    return ReadJson(rest.substr(0, length));
  }

  void Add(const std::string& name, json arguments) {
    if (!arguments.is_object() || out_.size() >= kMostCalls) return;
    out_.push_back({name, std::move(arguments)});
  }

  // <function=name>{...}</function>, or parameters in tags.
  void InFunctionTags() {
    constexpr std::string_view kOpen = "<function=";
    for (size_t at = text_.find(kOpen); at != std::string_view::npos;
         at = text_.find(kOpen, at + 1)) {
      const size_t begin = at + kOpen.size();
      const size_t close = text_.find('>', begin);
      if (close == std::string_view::npos || !Spend(close - begin)) return;
      const std::string name(text_.substr(begin, close - begin));
      if (!IsOffered(tools_, name)) continue;
      std::string_view rest = text_.substr(close + 1);
      json arguments = ValueAt(rest);
      if (arguments.is_discarded()) {
        rest = rest.substr(0, rest.find("</function>"));
        if (!Spend(rest.size())) return;
        arguments = TaggedParameters(rest, tools_, name);
      }
      Add(name, std::move(arguments));
    }
  }

  // DeepSeek: <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, then a fenced object.
  void BehindSeparators() {
    constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
    for (size_t at = text_.find(kSeparator); at != std::string_view::npos;
         at = text_.find(kSeparator, at + 1)) {
      const std::string_view rest = text_.substr(at + kSeparator.size());
      const size_t line = rest.find_first_of("\n{<");
      const size_t begin = rest.find('{');
      if (line == std::string_view::npos || begin == std::string_view::npos) return;
      if (!Spend(begin)) return;
      const std::string name(TrimBlank(rest.substr(0, line)));
      if (IsOffered(tools_, name)) Add(name, ValueAt(rest.substr(begin)));
    }
  }

  void Behind(std::string_view mark) {
    for (size_t at = text_.find(mark); at != std::string_view::npos;
         at = text_.find(mark, at + 1)) {
      const json value = ValueAt(text_.substr(at + mark.size()));
      if (!value.is_array()) {
        Read(value);
        continue;
      }
      for (const json& item : value) Read(item);
    }
  }

  // The whole text is a call, or several.
  void AsTheWholeText() {
    for (const json& value : GluedObjects(text_)) {
      if (!Read(value)) return out_.clear();
    }
  }

  bool Read(const json& value) {
    return out_.size() < kMostCalls && ReadCall(value, tools_, &out_);
  }

  const std::string_view text_;
  const json& tools_;
  size_t left_;  // bytes that may still be read
  std::vector<LeakedCall> out_;
};

// Only calls of tools that were offered: text that merely looks like a call stays text.
inline std::vector<LeakedCall> LeakedCalls(std::string_view text, const json& tools) {
  if (!tools.is_array() || tools.empty()) return {};
  return LeakedCallFinder(text, tools).Find();
}

}  // namespace kernel_evolve::sdk::detail
