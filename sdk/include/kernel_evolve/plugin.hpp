// The C++17 face of the plugin boundary: write a class with a Step() and register it. Header-only
// over abi.h; needs nlohmann::json. sdk/ABI.md describes the events and outcomes in full.
//
//   #include <kernel_evolve/plugin.hpp>
//   using namespace kernel_evolve::sdk;
//
//   class Clock : public Resumable {
//    public:
//     using Resumable::Resumable;  // (const Config&, const Host&): throw PluginError to refuse
//     Outcome Step(const json& event) override {
//       if (IsStart(event)) return Outcome::Effects({NowEffect("t")});
//       const Results results(event);
//       return NodeDone({{"time", results.Value("t")}});
//     }
//   };
//   KERNEL_EVOLVE_PLUGIN("acme_clock", "1.0.0",
//       Node<Clock>("acme/clock", "The time as a value", R"({"type": "object"})",
//                   R"({"ports": {"in": [], "out": [{"name": "time", "type": "float"}]}})"))
//
// A class is stepped by one thread at a time, not always the same one. Any exception is caught at
// the boundary: PluginError keeps its class, everything else becomes class "internal".
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernel_evolve/abi.h"

namespace kernel_evolve::sdk {

using json = nlohmann::json;

// A planned failure. `error_class` is one of timeout, communication, rate_limit, invalid_output,
// unavailable, auth, validation, budget, cancelled, internal. The message is one sentence for a
// person: what is wrong, where, what to do.
class PluginError : public std::runtime_error {
 public:
  PluginError(std::string error_class, const std::string& message)
      : std::runtime_error(message), error_class_(std::move(error_class)) {}
  const std::string& error_class() const { return error_class_; }

 private:
  std::string error_class_;
};

// What an instance was created with. `params` satisfy the type's schema, defaults filled in.
struct Config {
  json params = json::object();
  json context = json::object();

  // The folder that holds the plugin's library, and one that it may write to. Absolute.
  std::string plugin_dir() const { return context.value("plugin_dir", std::string()); }
  std::string scratch_dir() const { return context.value("scratch_dir", std::string()); }
  // The run's seed: the only source of chance, apart from the "random" effect.
  int64_t seed() const { return context.value("seed", int64_t{0}); }
};

enum class Log { kDebug, kInfo, kWarning, kError };

// The host, as one instance sees it. A small value; valid as long as the instance lives. Every
// call may be made from any thread and returns at once.
class Host {
 public:
  explicit Host(const ke_host* table) : table_(table) {}

  void Write(Log level, std::string_view message) const {
    table_->log(table_->context, static_cast<ke_log_level>(level), Span(message));
  }
  // A short line for whoever watches the run.
  void Progress(std::string_view text) const {
    const std::string data = Print({{"text", text}});
    table_->progress(table_->context, Span(data));
  }
  bool Cancelled() const { return table_->cancelled(table_->context) != 0; }
  // Milliseconds until the deadline of the current step; -1 for none.
  int64_t TimeLeftMs() const { return table_->time_left_ms(table_->context); }
  // {"input_tokens": n, "output_tokens": n, "cost": x}, added to what was reported before.
  void ReportUsage(const json& usage) const {
    const std::string data = Print(usage);
    table_->report_usage(table_->context, Span(data));
  }
  // Throws PluginError (auth) when the secret was not declared for this instance or is not set.
  std::string Secret(std::string_view name) const {
    std::string out;
    const ke_sink sink = {&out, [](void* text, const char* data, size_t size) {
                            static_cast<std::string*>(text)->append(data, size);
                          }};
    if (table_->secret(table_->context, Span(name), &sink) != KE_OK) {
      throw PluginError("auth", "the secret '" + std::string(name) + "' is not available");
    }
    return out;
  }

  // JSON on one line; bytes that are not UTF-8 become U+FFFD.
  static std::string Print(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

 private:
  static ke_span Span(std::string_view text) { return {text.data(), text.size()}; }
  const ke_host* table_;
};

// What a step ends with: effects to carry out, or the final word.
class Outcome {
 public:
  // At least one effect; ids are unique within the list. All results come in one event.
  static Outcome Effects(const std::vector<json>& effects) { return Outcome("effects", effects); }
  static Outcome Done(json value) { return Outcome("done", std::move(value)); }
  // The sentence and class that PluginError would carry, without throwing.
  static Outcome Error(const std::string& error_class, const std::string& message) {
    return Outcome("error", {{"class", error_class}, {"message", message}});
  }
  const json& value() const { return value_; }

 private:
  Outcome(const char* key, json body) { value_[key] = std::move(body); }
  json value_ = json::object();
};

// The final words of the three kinds.
inline Outcome NodeDone(json out, json result = json::object()) {
  return Outcome::Done({{"out", std::move(out)}, {"result", std::move(result)}});
}
inline Outcome ProviderDone(json response) {
  return Outcome::Done({{"response", std::move(response)}});
}
inline Outcome EvaluatorDone(json verdict) {
  return Outcome::Done({{"verdict", std::move(verdict)}});
}

// One call of a Python function in the evaluation worker. `module` is looked up in the plugin's
// python/ folder, then among the worker's own modules.
struct WorkerCall {
  std::string module;
  std::string function;
  json request = json::object();
  double deadline_s = 60;
  std::string session;           // calls with the same key share a process; empty: one of its own
  json limits = json::object();  // {"memory_mb": n, "output_kb": n}
};

// Effects. `id` names the effect in the results; llm_complete and evaluate are for nodes only.
inline json WorkerEffect(const std::string& id, const WorkerCall& call) {
  return {{"id", id},
          {"kind", "worker_call"},
          {"module", call.module},
          {"function", call.function},
          {"session", call.session.empty() ? json(nullptr) : json(call.session)},
          {"request", call.request},
          {"deadline_s", call.deadline_s},
          {"limits", call.limits}};
}
inline json CompleteEffect(const std::string& id, const std::string& model, json request) {
  return {{"id", id}, {"kind", "llm_complete"}, {"model", model}, {"request", std::move(request)}};
}
inline json EvaluateEffect(const std::string& id, json candidate, const std::string& asked) {
  return {{"id", id}, {"kind", "evaluate"}, {"candidate", std::move(candidate)}, {"asked", asked}};
}
inline json NowEffect(const std::string& id) { return {{"id", id}, {"kind", "now"}}; }
inline json RandomEffect(const std::string& id, int count) {
  return {{"id", id}, {"kind", "random"}, {"count", count}};
}
inline json SleepEffect(const std::string& id, double seconds) {
  return {{"id", id}, {"kind", "sleep"}, {"seconds", seconds}};
}

// True for the first event of an instance; every later one holds results.
inline bool IsStart(const json& event) { return event.value("type", std::string()) == "start"; }

// The results of the effects of the last step. Keeps a reference to the event.
class Results {
 public:
  explicit Results(const json& event) : results_(event.at("results")) {}

  bool Ok(const std::string& id) const { return results_.at(id).contains("ok"); }
  // What the effect yielded. Throws its error as a PluginError of the same class.
  const json& Value(const std::string& id) const {
    const json& result = results_.at(id);
    if (const auto ok = result.find("ok"); ok != result.end()) return *ok;
    const json& error = result.at("error");
    throw PluginError(error.value("class", std::string("internal")),
                      error.value("message", std::string("an effect failed without saying why")));
  }
  // The {"class", "message"} of an effect that is not Ok().
  const json& Error(const std::string& id) const { return results_.at(id).at("error"); }

 private:
  const json& results_;
};

// An instance of a type. Derive, take (const Config&, const Host&), and implement Step().
class Resumable {
 public:
  Resumable(Config config, const Host& host) : config_(std::move(config)), host_(host) {}
  virtual ~Resumable() = default;
  Resumable(const Resumable&) = delete;
  Resumable& operator=(const Resumable&) = delete;

  // Takes one event and says what comes next. Must not block unless the type says "blocking".
  virtual Outcome Step(const json& event) = 0;

 protected:
  const Config& config() const { return config_; }
  const json& params() const { return config_.params; }
  const Host& host() const { return host_; }

 private:
  Config config_;
  Host host_;
};

}  // namespace kernel_evolve::sdk

#include "kernel_evolve/detail/boundary.hpp"  // Node<T>(), Provider<T>(), Evaluator<T>()

// Defines the plugin's one export. Once, in one source file:
//   KERNEL_EVOLVE_PLUGIN("id", "1.0.0", Node<A>(...), Provider<B>(...))
// The id is the one given to kernel_evolve_add_plugin.
#define KERNEL_EVOLVE_PLUGIN(id, version, ...)                                        \
  extern "C" KE_EXPORT const ke_plugin* ke_plugin_query(uint32_t, uint32_t) {         \
    return ::kernel_evolve::sdk::detail::Query([]() -> const ke_plugin* {             \
      using namespace ::kernel_evolve::sdk; /* NOLINT(google-build-using-namespace)*/ \
      static const detail::Tables tables(id, version, {__VA_ARGS__});                 \
      return tables.plugin();                                                         \
    });                                                                               \
  }
