// From what a person wrote to a canonical response. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace provider_mailbox {

// The response, or one sentence that says what is wrong with the answer.
struct Answer {
  nlohmann::json response;
  std::string problem;  // empty on success
};

// `text` is a canonical response, {"tool": NAME, "arguments": {...}}, a list of these, or
// {"text": "..."}. It must fit the request's tools.
Answer FromJson(const std::string& text, const nlohmann::json& request);

// `code` is a whole kernel file: a call of submit_kernel or validate_model, whichever is offered.
// The summary is the file's first comment.
Answer FromPython(const std::string& code, const nlohmann::json& request);

// "submit_kernel" or "validate_model" when the request offers it, else "".
std::string KernelTool(const nlohmann::json& request);

}  // namespace provider_mailbox
