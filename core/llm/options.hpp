// What a profile says of a model's endpoint that is the host's business, not the codec's: limits,
// retries, TLS, proxy, sampling. Value types; thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/llm/http.hpp"
#include "core/llm/limiter.hpp"
#include "core/llm/retry.hpp"

namespace kernel_evolve {

struct EndpointOptions {
  HttpOptions http;
  EndpointLimits limits;
  RetryPolicy retry;
  Json sampling = Json::Obj();  // only what the profile sets; nothing is sent that is not here
  // What the model can do when the profile says so; else what its provider declares.
  std::optional<std::vector<std::string>> capabilities;
};

// Takes the host's keys out of `params` (what stands beside `provider` in a profile) and reads
// them:
//
//   sampling:     {temperature: 0.8, top_p, top_k, max_tokens, frequency_penalty, presence_penalty,
//                  stop: [text], reasoning_effort: text, extra: {anything}}
//   limits:       {concurrency: 8, requests_per_minute: 60, connect_timeout: 10s, timeout: 10m,
//                  idle_timeout: 2m, max_response: 64M}
//   retry:        {attempts: 5, backoff: 1s, max_wait: 2m}
//   tls:          {ca_bundle: FILE, client_certificate: FILE, client_key: FILE}
//   proxy:        URL or none
//   http_version: auto, 1.1 or 2
//   capabilities: [tools, ...]
//
// Relative files are looked up in `folder`, the profile's. Errors: validation, exit 2; the sentence
// names the model, the key and the nearest known one.
Result<EndpointOptions> TakeEndpointOptions(const std::string& alias,
                                            const std::filesystem::path& folder, Json* params);

// What is sampled with: the profile's members, and over them the request's own.
Json MergedSampling(const EndpointOptions& options, const Json& request);

}  // namespace kernel_evolve
