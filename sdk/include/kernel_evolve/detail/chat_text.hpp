// What hides in a model's text: reasoning between markers, and tool calls that the server did not
// take out. Part of chat_codec.hpp. Pure functions over whole texts, so that the way in which a
// stream was cut cannot matter.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel_evolve/codec.hpp"

namespace kernel_evolve::sdk::detail {

struct SplitText {
  std::string text;
  std::string reasoning;
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
  for (size_t at = 0; at < all.size();) {
    const std::string_view marker = inside ? close : open;
    size_t end = all.find(marker, at);
    const bool found = end != std::string_view::npos;
    if (!found) end = all.size();
    (inside ? out.reasoning : out.text).append(all.substr(at, end - at));
    at = end + (found ? marker.size() : 0);
    if (found) inside = !inside;
  }
  return out;
}

inline std::string_view TrimBlank(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ') text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

// The length of the JSON value that `text` begins with; 0 when it begins with none or it is cut.
inline size_t ValueLength(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
    if (depth == 0 && !quoted) return 0;
  }
  return 0;
}

// The values of a text that is nothing but JSON objects glued together; empty when it is not.
inline std::vector<json> GluedObjects(std::string_view text) {
  std::vector<json> out;
  for (text = TrimBlank(text); !text.empty(); text = TrimBlank(text)) {
    const size_t length = ValueLength(text);
    json value = json::parse(text.substr(0, length), nullptr, /*allow_exceptions=*/false);
    if (length == 0 || !value.is_object()) return {};
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
    arguments = json::parse(arguments.get<std::string>(), nullptr, false);
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
      json parsed = json::parse(value, nullptr, /*allow_exceptions=*/false);
      if (type != "string" && !parsed.is_discarded()) out[key] = std::move(parsed);
    }
    at = end;
  }
  return out.empty() ? json() : out;
}

// Calls in the forms in which servers leak them. Only of tools that were offered: text that merely
// looks like a call stays text.
inline std::vector<LeakedCall> LeakedCalls(std::string_view text, const json& tools) {
  std::vector<LeakedCall> out;
  if (!tools.is_array() || tools.empty()) return out;
  // <function=name>{...}</function> carries the name in the tag.
  constexpr std::string_view kFunction = "<function=";
  for (size_t at = text.find(kFunction); at != std::string_view::npos;
       at = text.find(kFunction, at + 1)) {
    const size_t close = text.find('>', at);
    if (close == std::string_view::npos) break;
    const std::string name(text.substr(at + kFunction.size(), close - at - kFunction.size()));
    const std::string_view rest = TrimBlank(text.substr(close + 1));
    json arguments = json::parse(rest.substr(0, ValueLength(rest)), nullptr, false);
    if (arguments.is_discarded()) arguments = TaggedParameters(rest, tools, name);
    if (arguments.is_object() && IsOffered(tools, name)) out.push_back({name, arguments});
  }
  // DeepSeek: <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, then a fenced object.
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  for (size_t at = text.find(kSeparator); at != std::string_view::npos;
       at = text.find(kSeparator, at + 1)) {
    const std::string_view rest = text.substr(at + kSeparator.size());
    const size_t line = rest.find_first_of("\n{<");
    const size_t begin = rest.find('{');
    if (line == std::string_view::npos || begin == std::string_view::npos) break;
    const std::string name(TrimBlank(rest.substr(0, line)));
    const std::string_view body = rest.substr(begin);
    json arguments = json::parse(body.substr(0, ValueLength(body)), nullptr, false);
    if (arguments.is_object() && IsOffered(tools, name)) out.push_back({name, arguments});
  }
  if (!out.empty()) return out;
  for (const std::string_view mark :
       {"<tool_call>", "[TOOL_CALLS]", "[unused11]", "```json", "```"}) {
    for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
      const std::string_view rest = TrimBlank(text.substr(at + mark.size()));
      const json value = json::parse(rest.substr(0, ValueLength(rest)), nullptr, false);
      if (value.is_array()) {
        for (const json& item : value) ReadCall(item, tools, &out);
      } else {
        ReadCall(value, tools, &out);
      }
    }
    if (!out.empty()) return out;
  }
  // The whole text is a call, or several.
  for (const json& value : GluedObjects(text)) {
    if (!ReadCall(value, tools, &out)) return {};
  }
  return out;
}

}  // namespace kernel_evolve::sdk::detail
