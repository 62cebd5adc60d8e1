// Codec: the host's handle on an instance of a provider that speaks to a service over HTTP. It only
// translates between canonical values and bytes; core/llm does everything else. Made by
// Registry::CreateCodec. One call at a time, from any thread; destroying it destroys the plugin's
// object.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve {

// What a codec wants sent. Header values and the address may hold `${env:NAME}`, which the sender
// fills in; the body is sent as it is.
struct EncodedRequest {
  std::string method;  // "POST", "GET"
  std::string url;     // absolute, http or https
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

class Codec {
 public:
  virtual ~Codec() = default;
  // Once. Errors: what the codec refuses to express, or invalid_output when it broke the protocol.
  virtual Result<EncodedRequest> Encode(const Json& request) = 0;
  // Each attempt: {"status": 200, "headers": {lower-case name: value}}.
  virtual Status Begin(const Json& head) = 0;
  // Bytes of the body, cut anywhere. Appends canonical events to `events`, one JSON object a line:
  // {"type": "text" | "reasoning", "text"}, {"type": "tool_call", "index", "name"},
  // {"type": "arguments", "index", "text"}.
  virtual Status Feed(std::string_view bytes, std::string* events) = 0;
  // {"response": {...}} or {"error": {"class", "message", "retry"?: bool, "retry_after_s"?: x}};
  // structurally checked. `complete`: false when the connection broke before the body's end.
  virtual Result<Json> Finish(bool complete) = 0;
};

}  // namespace kernel_evolve
