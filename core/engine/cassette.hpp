// Cassettes: the model calls of a run as a file that the provider `replay` answers from, so that
// the same run can be made again without a network. Its format is described in
// plugins/provider_replay/README.md. A journal holds no secret, so a cassette holds none.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve {

// Every model call that the journal has an answer for, by alias and in the order of asking.
// Errors: as Journal::Read.
Result<Json> CassetteOf(const std::filesystem::path& journal);

// Identifies a request: what the model is shown, not what stands beside it for the host. FNV-1a,
// 64 bits, over the canonical JSON of messages, tools and tool_choice.
std::string RequestHash(const Json& request);

}  // namespace kernel_evolve
