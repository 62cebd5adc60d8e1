// kernel-evolve evaluate: a verdict for a candidate that someone already has.
#include <cstdio>
#include <filesystem>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/bindings.hpp"
#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"
#include "core/cli/run_graph.hpp"
#include "core/cli/scratch.hpp"
#include "core/engine/once.hpp"
#include "core/report/progress.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxKernelBytes = 1U << 20U;

void PrintVerdict(const Json& verdict) {
  const bool win = verdict.Flag("win");
  std::printf("%s: %s\n", win ? "Win" : "No win", VerdictLine(verdict).c_str());
  if (!verdict["feedback"].is_array()) return;
  for (const Json& line : verdict["feedback"].array()) {
    if (line.is_string()) std::printf("  %s\n", line.string().c_str());
  }
}

int Run(const Arguments& arguments) {
  const Result<Json> task = ReadTask(arguments.Get("TASK"));
  if (!task) return Fail(task.error());
  const std::string path = arguments.Get("CANDIDATE");
  const Result<std::string> code = ReadFile(path, kMaxKernelBytes);
  if (!code) return Fail(code.error());
  if (!IsUtf8Text(*code) || Trim(*code).empty()) {
    return Fail(BadInput(path + " is not a Python file that defines ModelNew"));
  }
  Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return Fail(registry.error());
  const Result<Bindings> bindings = Bind(arguments, nullptr, *registry);
  if (!bindings) return Fail(bindings.error());
  const Result<uint64_t> seed = SeedFrom(arguments);
  if (!seed) return Fail(seed.error());
  const Result<std::vector<WorkerOptions>> options = WorkersFor(arguments, bindings->launch);
  if (!options) return Fail(options.error());
  const Scratch scratch;
  if (scratch.path().empty()) {
    return Fail(MissingEnvironment("no temporary folder can be made; set TMPDIR to one"));
  }

  WatchInterrupts();
  ProgressPrinter progress(stderr);
  WorkerPool workers(*options);
  const Json candidate =
      Json::Obj({{"id", fs::path(path).stem().string()}, {"code", *code}, {"origin", "user"}});
  const Result<Json> verdict =
      EvaluateOnce(bindings->evaluator, *task, candidate, "full", *seed, *registry, workers,
                   progress, scratch.path(), Interrupted());
  if (!verdict) {
    Error error = verdict.error();
    // A planned refusal speaks of the task or the file: the user's input.
    if (error.error_class == ErrorClass::kValidation) error.exit_code = kExitBadInput;
    return Fail(error);
  }
  if (arguments.Has("--json")) {
    std::printf("%s\n", verdict->Dump(2).c_str());
  } else {
    PrintVerdict(*verdict);
  }
  return verdict->Flag("win") ? kExitOk : kExitFailed;
}

const Registration kThis(
    {"evaluate", "Judges a candidate file against a task; exit 0 only for a win",
     WithPluginOptions({{"TASK", "", "Python file with Model, get_inputs, get_init_inputs", true},
                        {"CANDIDATE", "", "Python file that defines ModelNew", true},
                        {"--profile", "FILE", "What evaluator to use; default: the simulator"},
                        {"--seed", "N", "Seed of the data it is judged on; default: drawn"},
                        {"--python", "FILE", "Python with PyTorch and Triton for the worker"},
                        {"--json", "", "Print the verdict as JSON"}}),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
