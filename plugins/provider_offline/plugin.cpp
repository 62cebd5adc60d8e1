// The provider `offline`: an author without a network. The work is done by Python code in this
// plugin's python/ folder, in the evaluation worker; this file only makes the call.
#include <kernel_evolve/plugin.hpp>

namespace {

using namespace kernel_evolve::sdk;

class Offline : public Resumable {
 public:
  using Resumable::Resumable;

  Outcome Step(const json& event) override {
    if (!IsStart(event)) return ProviderDone(Results(event).Value("answer"));
    const json& request = event.at("request");
    WorkerCall call;
    call.module = "offline_author.answer";
    call.function = "answer";
    call.deadline_s = params().at("deadline_s");
    call.limits = {{"memory_mb", params().at("memory_mb")}};
    call.request = {{"request", request}, {"seed", request.value("seed", config().seed())}};
    return Outcome::Effects({WorkerEffect("answer", call)});
  }
};

constexpr char kParams[] = R"({
  "type": "object",
  "properties": {
    "deadline_s": {"type": "number", "minimum": 1, "default": 120,
                   "description": "Seconds that one answer may take."},
    "memory_mb": {"type": "integer", "minimum": 256, "default": 8192,
                  "description": "Memory that one answer may use."}
  },
  "additionalProperties": false
})";

constexpr char kInterface[] = R"({"form": "resumable", "capabilities": ["tools", "seed"]})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("provider_offline", "1.0.0",
                     Provider<Offline>("offline",
                                       "Writes kernels from the captured graph, without a network",
                                       kParams, kInterface))
