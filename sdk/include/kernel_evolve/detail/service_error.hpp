// What a service's refusal comes to: an error class and one sentence. Part of codec helpers.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "kernel_evolve/codec.hpp"

namespace kernel_evolve::sdk::detail {

constexpr size_t kLongestExcerpt = 400;  // bytes of a service's own words in a sentence

inline std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

inline bool Mentions(const std::string& lower, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&lower](const char* part) { return lower.find(part) != std::string::npos; });
}

// On one line, without control characters or a full stop, cut between characters.
inline std::string Excerpt(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = static_cast<unsigned char>(c) <= ' ';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out.push_back(blank ? ' ' : c);
    if (out.size() > kLongestExcerpt) break;
  }
  if (out.size() > kLongestExcerpt) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U) {
      out.pop_back();
    }
    if (!out.empty()) out.pop_back();
    return out + "...";
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '.')) out.pop_back();
  return out;
}

// The service's own words and kind, wherever it put them.
struct ServiceWords {
  std::string message;
  std::string kind;  // type and code, joined
};

inline std::string TextOf(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? std::string() : Host::Print(value);
}

inline ServiceWords ReadWords(const json& body) {
  ServiceWords words;
  if (!body.is_object()) return words;
  const json& error = body.contains("error") ? body["error"] : body;
  if (error.is_string()) {
    words.message = error;
  } else if (error.is_object()) {
    for (const char* key : {"message", "error_msg", "detail", "msg", "error_message", "reason"}) {
      if (words.message.empty() && error.contains(key)) words.message = TextOf(error[key]);
    }
    for (const char* key : {"type", "code", "error_code", "status"}) {
      if (error.contains(key)) words.kind += TextOf(error[key]) + " ";
    }
  }
  if (words.message.empty() && body.contains("message")) words.message = TextOf(body["message"]);
  return words;
}

// Whether a body that came with a good status is a refusal all the same.
inline bool IsErrorBody(const json& body) {
  if (body.contains("error") && !body["error"].is_null() && body["error"] != json("")) return true;
  if (body.contains("error_code") && !body["error_code"].is_null()) {
    return body["error_code"] != json(0) && body["error_code"] != json("");
  }
  return body.value("object", json()) == json("error");
}

// The status that an error's body claims, for one that came after a good status; 0 for none.
inline int StatusIn(const json& body) {
  const json& error = body.contains("error") ? body["error"] : body;
  if (!error.is_object()) return 0;
  for (const char* key : {"code", "status", "error_code"}) {
    if (!error.contains(key)) continue;
    const std::string digits = TextOf(error[key]);
    const bool refusal = digits.size() == 3 && (digits[0] == '4' || digits[0] == '5') &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
    if (refusal) return std::stoi(digits);
  }
  return 0;
}

// Class, and whether trying again can help, by status and by the service's own words: a permanent
// mistake is sometimes sent as 500, and a passing one inside a stream that began with 200.
inline ServiceError Classify(int status, const ServiceWords& words, const std::string& who) {
  const std::string lower = Lower(words.message + " " + words.kind);
  const std::string said = words.message.empty() ? words.kind : words.message;
  const std::string reason = Excerpt(said);
  const std::string sentence =
      who + (status >= 300 ? " answered " + std::to_string(status) : std::string(" failed")) +
      ": " + (reason.empty() ? "no reason given" : reason);
  if (Mentions(lower, {"context length", "context_length", "maximum context", "context window",
                       "too many tokens", "prompt is too long", "exceed context",
                       "exceeds the available context"})) {
    return {"validation", sentence + "; the prompt is longer than the model takes", false};
  }
  if (Mentions(lower, {"insufficient_quota", "insufficient balance", "exceeded your current quota",
                       "billing"})) {
    return {"rate_limit", sentence + "; the account has no quota left", false};
  }
  if (status == 401 || status == 403 ||
      Mentions(lower,
               {"invalid_api_key", "authentication_error", "invalid api key", "incorrect api key",
                "unauthorized", "permission_error", "apig.0301", "iam authentication"})) {
    return {"auth", sentence + "; check the key and the headers in the profile", false};
  }
  if (status == 429 || status == 529 ||
      Mentions(lower,
               {"rate_limit", "rate limit", "overloaded", "too many requests", "apig.0308"})) {
    return {"rate_limit", sentence};
  }
  if (Mentions(lower, {"invalid_request", "model_not_found", "not_found_error", "does not support",
                       "not supported", "unsupported", "invalid parameter", "reasoning_content",
                       "--jinja", "must alternate"}) ||
      (status >= 400 && status < 500 && status != 408 && status != 409 && status != 425)) {
    return {"validation", sentence, false};
  }
  if (status == 408 || status == 504 || Mentions(lower, {"timeout", "timed out"})) {
    return {"timeout", sentence};
  }
  return {"unavailable", sentence};
}

}  // namespace kernel_evolve::sdk::detail
