// The part of doctor that calls the models of a profile.
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/text.hpp"
#include "core/cli/bindings.hpp"
#include "core/cli/findings.hpp"
#include "core/cli/installation.hpp"
#include "core/cli/run_graph.hpp"
#include "core/engine/once.hpp"
#include "core/llm/message.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kTool[] = "report_sum";
constexpr int64_t kSum = 42;

// Asks for one call of a tool with one number: the least that a strategy needs.
Json Probe() {
  return Json::Obj(
      {{"messages", Json::Arr({Json::Obj({{"role", "user"},
                                          {"content",
                                           "Add 19 and 23, then call the tool "
                                           "report_sum with the sum."}})})},
       {"tools",
        Json::Arr({Json::Obj(
            {{"name", kTool},
             {"description", "Hands over the sum."},
             {"parameters",
              Json::Obj({{"type", "object"},
                         {"properties", Json::Obj({{"sum", Json::Obj({{"type", "integer"}})}})},
                         {"required", Json::Arr({"sum"})},
                         {"additionalProperties", false}})}})})},
       {"tool_choice", "required"},
       {"sampling", Json::Obj()}});
}

// Nothing here starts Python.
class NoWorker : public WorkerPort {
 public:
  int64_t Call(WorkerCall /*call*/, Worker::Done done, Worker::Progress /*progress*/) override {
    done(Failed(ErrorClass::kUnavailable, "doctor starts no worker for a model"));
    return 0;
  }
  void Cancel(int64_t /*id*/) override {}
};

void ReportCall(const std::string& alias, const Json& response, const Json& call,
                Findings* findings) {
  findings->Good(alias, "answered in " + FormatSeconds(call.Number("seconds")) + " as " +
                            (response.Text("model").empty() ? "a model that gives no name"
                                                            : response.Text("model")));
  if (call.Integer("attempts", 1) > 1) {
    findings->Absent(alias, "took " + std::to_string(call.Integer("attempts")) +
                                " attempts: " + call["failures"].Dump());
  }
  const Result<Json> checked = CheckResponse(Probe(), response);
  if (!checked) {
    findings->Missing(
        alias, "cannot be used, since its function calling fails: " + checked.error().message);
  } else if ((*checked)["tool_calls"].array().front()["arguments"].Integer("sum") != kSum) {
    findings->Absent(alias, "tools work, but the sum of 19 and 23 came out wrong");
  } else {
    findings->Good(alias, "tools work");
  }
  if (call.Integer("pieces") > 1) {
    findings->Good(alias,
                   "streaming works (" + std::to_string(call.Integer("pieces")) + " pieces)");
  } else {
    findings->Absent(alias,
                     "the answer came in one piece: no streaming, or a gateway that collects");
  }
  const TokenUsage usage = UsageOf(response);
  if (usage.total() > 0) {
    findings->Good(alias, "usage is reported (" + std::to_string(usage.input) + " tokens in, " +
                              std::to_string(usage.output) + " out)");
  } else {
    findings->Absent(alias, "no usage is reported: budgets of tokens and cost cannot be kept");
  }
  const Json& quirks = response["quirks"];
  if (!quirks.is_array()) return;
  for (const Json& quirk : quirks.array()) {
    if (quirk.is_string()) findings->Absent(alias, "quirk: " + quirk.string());
  }
}

}  // namespace

void CheckModels(const Arguments& arguments, Findings* findings) {
  Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return findings->Missing("models", registry.error().message);
  const Result<graph::Profile> profile = OpenProfile(arguments.Get("--profile"));
  if (!profile) return findings->Missing("models", profile.error().message);
  RegistryFactory factory(*registry);
  NoWorker worker;
  HttpModels models;
  SystemClock clock;
  RunObserver nobody;
  const Outside outside{factory, worker, models, clock};
  WatchInterrupts();
  std::error_code failed;
  const fs::path scratch = fs::temp_directory_path(failed);
  for (const auto& [alias, model] : profile->models) {
    const TypeInfo* type = registry->Find(TypeKind::kProvider, model.provider);
    if (type == nullptr) {
      findings->Missing(alias, "there is no provider '" + model.provider + "'" +
                                   KnownTypes(*registry, TypeKind::kProvider, model.provider));
      continue;
    }
    if (type->interface.Text("form") != "codec") {
      findings->Good(alias, "the provider '" + model.provider + "' calls no endpoint");
      continue;
    }
    const ModelBinding binding{model.provider, model.with, fs::path(profile->path).parent_path()};
    const ModelReply reply =
        CompleteOnce(alias, binding, Probe(), outside, nobody, scratch, Interrupted());
    if (!reply.response) {
      findings->Missing(alias, reply.response.error().message);
    } else {
      ReportCall(alias, *reply.response, reply.call, findings);
    }
  }
}

}  // namespace kernel_evolve::cli
