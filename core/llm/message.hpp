// The canonical request to a language model and the canonical response: their form, and whether
// the tool calls in a response fit the tools of the request. Every provider speaks this form; the
// host checks both directions. Pure functions.
//
// request:  {"messages": [{"role", "content", "tool_calls"?, "tool_call_id"?, "reasoning"?,
//           "raw"?}], "tools"?: [{"name", "description"?, "parameters"}], "tool_choice"?: "auto" |
//           "required" | {"name"}, "sampling"?, "seed"?, "context"?}
// response: {"text", "reasoning", "tool_calls": [{"id", "name", "arguments", "malformed"?}],
//           "usage": {"input_tokens", "output_tokens", "cached_tokens"?}, "finish_reason", "model",
//           "raw"?, "quirks"?}
#pragma once

#include <cstdint>
#include <string>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve {

// What one call used, as the provider says. Tokens are counts from 0 up.
struct TokenUsage {
  int64_t input = 0;
  int64_t output = 0;
  int64_t total() const { return input + output; }
};

// Class validation: the node that wrote the request is wrong. The sentence begins with the place.
Status CheckRequest(const Json& request);

// The response with every member present, or class invalid_output with a sentence that can be shown
// to the model: a tool that was not offered, arguments that do not fit the tool's parameters, no
// tool call where one was required, a call cut off by the length limit. `request` has passed
// CheckRequest.
Result<Json> CheckResponse(const Json& request, const Json& response);

// Whether `arguments` is an object that satisfies the top level of `parameters` (a JSON Schema):
// required members, no unknown one where additionalProperties is false, type and enum of each.
Status CheckArguments(const Json& parameters, const Json& arguments, const std::string& tool);

// Reads a response's usage forgivingly; also of one that CheckResponse refuses, since it was paid.
TokenUsage UsageOf(const Json& response);

// About how many tokens the request sends: a quarter of its bytes without `context`. For
// reservations only.
int64_t EstimateInputTokens(const Json& request);

}  // namespace kernel_evolve
