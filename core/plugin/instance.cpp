#include "core/plugin/instance.hpp"

#include <string>
#include <utility>

#include "core/plugin/boundary.hpp"
#include "core/plugin/outcome.hpp"

namespace kernel_evolve {
namespace {

class PluginInstance : public Instance {
 public:
  PluginInstance(TypeInfo type, const ke_type_vtable& vtable, std::unique_ptr<HostTable> host,
                 void* object)
      : type_(std::move(type)), vtable_(vtable), host_(std::move(host)), object_(object) {}
  ~PluginInstance() override { vtable_.destroy(object_); }
  PluginInstance(const PluginInstance&) = delete;
  PluginInstance& operator=(const PluginInstance&) = delete;

  Result<Json> Step(const Json& event) override {
    if (finished_) {
      return Failed(ErrorClass::kInternal,
                    Describe(type_) + " has finished; it takes no more events");
    }
    Result<Json> outcome = Call(event);
    finished_ = !outcome.ok() || !outcome->contains("effects");
    return outcome;
  }

 private:
  Result<Json> Call(const Json& event) {
    const std::string text = event.Dump();
    Sink sink;
    host_->services().Entering(type_, "step");
    if (vtable_.step(object_, Span(text), sink.get()) != KE_OK) {
      const PluginFailure failure = ReadFailure(sink);
      return Failed(failure.error_class, Describe(type_) + " failed" + failure.Why());
    }
    if (sink.overflow()) return Invalid("it is larger than 256 MiB");
    Result<Json> outcome = Json::Parse(sink.text());
    if (!outcome.ok()) return Invalid(outcome.error().message);
    const Status checked = CheckOutcome(type_.kind, *outcome);
    if (!checked.ok()) return Invalid(checked.error().message);
    return outcome;
  }

  Error Invalid(const std::string& why) const {
    return Failed(ErrorClass::kInvalidOutput,
                  Describe(type_) + " gave an outcome that breaks the step protocol: " + why);
  }

  TypeInfo type_;
  const ke_type_vtable& vtable_;
  std::unique_ptr<HostTable> host_;
  void* object_;
  bool finished_ = false;
};

}  // namespace

Result<std::unique_ptr<Instance>> CreateInstance(const TypeInfo& type, const ke_type_vtable& vtable,
                                                 const Json& config,
                                                 std::shared_ptr<HostServices> services) {
  auto host = std::make_unique<HostTable>(std::move(services));
  const Result<void*> object = CreateObject(type, vtable, config, *host);
  if (!object) return object.error();
  return std::unique_ptr<Instance>(
      std::make_unique<PluginInstance>(type, vtable, std::move(host), *object));
}

}  // namespace kernel_evolve
