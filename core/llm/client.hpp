// Model calls over HTTP: encodes, waits its turn at the endpoint, sends, decodes as bytes arrive,
// tries again where that helps, and hands over one response or one error. Many calls are in flight
// on the transport's one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/llm/http.hpp"
#include "core/llm/options.hpp"
#include "core/llm/secrets.hpp"
#include "core/plugin/codec.hpp"

namespace kernel_evolve {

struct ModelCall {
  std::unique_ptr<Codec> codec;  // of this call alone
  // Canonical; its sampling is laid over the options', its context is not sent.
  Json request;
  EndpointOptions options;
  Secrets secrets;
};

// What a call took, for reports: {"attempts": n, "seconds": from Call() to the end, "waited_s": of
// these in queues and between attempts, "first_byte_s": of the last attempt, "status": the last
// HTTP status or 0, "pieces": arrivals that held something of the answer, "failures": {"429": n,
// "timeout": n, ...}}.
struct ModelReply {
  Result<Json> response;  // canonical, secrets struck out; not yet checked against the request
  Json call;
};

class ModelClient {
 public:
  // On the transport's thread; must not wait. Exactly once for each call, never within Call().
  using Done = std::function<void(ModelReply reply)>;
  // What arrives meanwhile: {"text": "receiving: 1200 characters"}, a few times a minute at most.
  using Progress = std::function<void(const Json& data)>;

  ModelClient();
  // Ends every call as cancelled.
  ~ModelClient();
  ModelClient(const ModelClient&) = delete;
  ModelClient& operator=(const ModelClient&) = delete;

  // Thread-safe; returns at once. The number is for Cancel().
  int64_t Call(ModelCall call, Done done, Progress progress = nullptr);
  // The call ends as cancelled within milliseconds. A call that has ended is ignored.
  void Cancel(int64_t call);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace kernel_evolve
