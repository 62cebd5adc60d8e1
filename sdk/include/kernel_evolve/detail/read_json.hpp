// JSON out of what a service sent. Part of the codec helpers. A service may be broken or hostile:
// the JSON library copies, compares and prints by recursion, so that a reply of nothing but
// brackets would overrun the stack; and every pass over a reply is on the one thread of all model
// calls.
#pragma once

#include <algorithm>
#include <string_view>

#include "kernel_evolve/codec.hpp"

namespace kernel_evolve::sdk::detail {

constexpr int kDeepest = 100;  // levels; the host reads 256, an answer lies a few below the top
constexpr size_t kMostCalls = 1000;  // tool calls in one answer

inline std::string_view TrimBlank(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ') text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

// Follows the brackets of JSON text that arrives in pieces.
class Brackets {
 public:
  void Take(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (quoted_) {
      escaped_ = c == '\\';
      quoted_ = c != '"';
    } else if (c == '"') {
      quoted_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
    begun_ = begun_ || static_cast<unsigned char>(c) > ' ';
  }
  void Take(std::string_view text) {
    for (const char c : text) Take(c);
  }
  int depth() const { return depth_; }
  // Whether a value has begun and nothing of it is open.
  bool Closed() const { return begun_ && depth_ <= 0 && !quoted_; }

 private:
  int depth_ = 0;
  bool quoted_ = false;
  bool escaped_ = false;
  bool begun_ = false;
};

// The one value that `text` is; discarded when it is none, or nested deeper than kDeepest.
inline json ReadJson(std::string_view text) {
  // Few brackets cannot nest deep, and counting them is quicker than following them.
  const auto opened =
      std::count(text.begin(), text.end(), '{') + std::count(text.begin(), text.end(), '[');
  Brackets brackets;
  for (size_t i = 0; opened > kDeepest && i < text.size(); ++i) {
    brackets.Take(text[i]);
    if (brackets.depth() > kDeepest) return json(json::value_t::discarded);
  }
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace kernel_evolve::sdk::detail
