#include <kernel_evolve/plugin.hpp>

using namespace kernel_evolve::sdk;

namespace {

class Clock : public Resumable {
 public:
  using Resumable::Resumable;
  Outcome Step(const json& event) override {
    if (IsStart(event)) return Outcome::Effects({NowEffect("t")});
    return NodeDone({{"time", Results(event).Value("t")}});
  }
};

}  // namespace

KERNEL_EVOLVE_PLUGIN("acme_clock", "1.0.0",
                     Node<Clock>("acme/clock", "The time as a value", R"({"type": "object"})",
                                 R"({"ports": {"out": [{"name": "time", "type": "float"}]}})"))
