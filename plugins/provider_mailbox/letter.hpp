// A request as a person reads it. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace provider_mailbox {

// Markdown: what to do and where the answer goes, the tools with their parameters, the messages.
// `number` is the request's, "0001"; `title` names the model that is stood in for, or is empty.
std::string Letter(const std::string& number, const std::string& title,
                   const nlohmann::json& request);

}  // namespace provider_mailbox
