// kernel-evolve doctor: what is here, what is missing, and what to type.
#include <dlfcn.h>

#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/text.hpp"
#include "core/cli/command.hpp"
#include "core/cli/doctor_evaluator.hpp"
#include "core/cli/findings.hpp"
#include "core/cli/installation.hpp"
#include "core/worker/python.hpp"

namespace kernel_evolve::cli {
namespace {

void CheckPlugins(const Arguments& arguments, Findings* findings) {
  const Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return findings->Missing("plugins", registry.error().message);
  std::vector<std::string> names;
  for (const TypeInfo& type : registry->types()) {
    if (type.kind != TypeKind::kNode) names.push_back(type.name);
  }
  findings->Good("plugins", std::to_string(registry->types().size()) +
                                " types; providers and "
                                "evaluators: " +
                                Join(names, ", "));
  Result<GraphFile> file = FindGraph("evolve");
  if (!file) return findings->Missing("graphs", file.error().message);
  if (!OpenGraph(*file, *registry))
    return findings->Missing("graphs", "the default graph is broken");
  findings->Good("graphs", file->root.string());
}

// Starts the evaluation worker once: the only proof that PyTorch and Triton load and can be jailed.
void CheckWorker(const WorkerOptions& options, Findings* findings) {
  std::promise<Result<WorkerReply>> promise;
  std::future<Result<WorkerReply>> reply = promise.get_future();
  Worker worker(options);
  WorkerCall call;
  call.module = "kernel_evolve_worker.selfcheck";
  call.function = "selfcheck";
  call.request = Json::Obj();
  call.deadline_s = 120;
  worker.Call(std::move(call),
              [&promise](Result<WorkerReply> result) { promise.set_value(std::move(result)); });
  const Result<WorkerReply> result = reply.get();
  if (!result) return findings->Missing("worker", result.error().message);
  findings->Good("ptxas", result->value.Text("ptxas"));
  findings->Good("worker", "compiled a kernel for sm_90 in " +
                               FormatSeconds(result->value.Number("compile_s")) + ", child peak " +
                               std::to_string(result->peak_kb / 1024) + " MiB");
  const std::string level = result->isolation.Text("level");
  if (level == "namespaces") {
    findings->Good("isolation", "namespaces, no network, private /tmp");
  } else {
    findings->Absent("isolation", level +
                                      " only: this machine allows no user namespaces, so "
                                      "verdicts say a lower isolation level");
  }
}

void CheckPython(const Arguments& arguments, Findings* findings) {
  const Result<WorkerOptions> options = WorkerFor(arguments);
  if (!options) return findings->Missing("python", options.error().message);
  const Result<PythonInfo> info = ProbePython(options->python);
  if (!info) return findings->Missing("python", info.error().message);
  findings->Good("python", info->python + " at " + options->python.string());
  for (const auto& [name, version] :
       {std::pair{"torch", info->torch}, std::pair{"triton", info->triton}}) {
    if (version.empty()) {
      findings->Missing(
          name, "not installed for " + options->python.string() + "; " + PythonInstallHint());
    } else {
      findings->Good(name, version);
    }
  }
  if (!info->torch.empty() && !info->triton.empty()) CheckWorker(*options, findings);
}

// Names of the GPUs that the driver opens here. `why` says what is wrong where there are none.
std::vector<std::string> Gpus(std::string* why) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    *why = "no CUDA driver";
    return {};
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(::dlsym(driver, "cuDeviceGetName"));
  int devices = 0;
  int code = -1;
  if (init != nullptr && count != nullptr && name != nullptr) {
    code = init(0);
    if (code == 0) code = count(&devices);
  }
  std::vector<std::string> names;
  for (int device = 0; device < devices; ++device) {
    char text[128] = "";
    if (name(text, sizeof text, device) == 0) names.emplace_back(text);
  }
  *why = "a CUDA driver, but no GPU that it opens (error " + std::to_string(code) + ")";
  return names;  // the driver stays: it does not like to be unloaded
}

void CheckGpu(const Arguments& arguments, Findings* findings) {
  std::string why;
  const std::vector<std::string> gpus = Gpus(&why);
  if (gpus.empty()) return findings->Absent("gpu", why + ": verdicts are modelled");
  const Result<Registry> registry = OpenRegistry(arguments);
  std::vector<std::string> measuring;
  for (const TypeInfo& type : registry ? registry->types() : std::vector<TypeInfo>()) {
    if (type.kind == TypeKind::kEvaluator && type.interface.Text("class") != "modelled") {
      measuring.push_back(type.name);
    }
  }
  if (measuring.empty()) {
    return findings->Absent("gpu", Join(gpus, ", ") + ", but no evaluator that measures");
  }
  findings->Good("gpu", Join(gpus, ", ") + "; a profile with 'evaluator: {use: " + measuring[0] +
                            "}' measures there, the default models");
}

int Run(const Arguments& arguments) {
  if (arguments.Has("--evaluator")) return TestEvaluator(arguments);
  for (const char* option : {"--only", "--corpus", "--seed", "--json"}) {
    if (!arguments.Has(option)) continue;
    return Fail(BadInput(std::string(option) + " goes with --evaluator; add it"));
  }
  Findings findings;
  findings.Good("program",
                "kernel-evolve " KERNEL_EVOLVE_VERSION " in " + ThisInstallation().prefix.string());
  CheckPlugins(arguments, &findings);
  CheckPython(arguments, &findings);
  CheckGpu(arguments, &findings);
  if (arguments.Has("--profile")) CheckModels(arguments, &findings);
  if (!findings.complete()) return kExitEnvironment;
  std::printf(
      "\nEverything that the main job needs is here. Try:\n"
      "  kernel-evolve evolve %s\n",
      (ThisInstallation().prefix / "share/kernel_evolve/examples/tasks/diag_matmul.py").c_str());
  return kExitOk;
}

const Registration kThis(
    {"doctor", "Says what is here, what is missing and what to type",
     WithPluginOptions(WithEvaluatorOptions(
         {{"--profile", "FILE", "Also calls each of its models once"},
          {"--python", "FILE", "Python with PyTorch and Triton for the worker"}})),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
