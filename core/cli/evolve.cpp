// kernel-evolve evolve: the main job. Runs a strategy on a task; by default the graph `evolve`.
#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"
#include "core/cli/run_graph.hpp"

namespace kernel_evolve::cli {
namespace {

constexpr size_t kMaxKernelBytes = 1U << 20U;

int Run(const Arguments& arguments) {
  RunRequest request;
  request.graph = arguments.Get("--graph", "evolve");
  const Result<Json> task = ReadTask(arguments.Get("TASK"));
  if (!task) return Fail(task.error());
  request.task = *task;
  if (arguments.Has("--start")) {
    const std::string path = arguments.Get("--start");
    const Result<std::string> source = ReadFile(path, kMaxKernelBytes);
    if (!source) return Fail(source.error());
    if (!IsUtf8Text(*source) || Trim(*source).empty()) {
      return Fail(BadInput("--start " + path + " is not a Python file that defines ModelNew"));
    }
    request.inputs["start"] = *source;
  }
  if (arguments.Has("--hint")) {
    Json hints = Json::Arr();
    for (const std::string& hint : arguments.All("--hint")) hints.push_back(hint);
    request.inputs["hints"] = hints;
  }
  return RunGraph(arguments, std::move(request));
}

const Registration kThis(
    {"evolve", "Evolves a faster kernel for the Model in TASK",
     WithRunOptions({{"TASK", "", "Python file with Model, get_inputs, get_init_inputs", true},
                     {"--graph", "NAME|FILE", "The strategy; default: evolve"},
                     {"--start", "FILE", "A kernel of your own to begin with"},
                     {"--hint", "TEXT", "Free text for the author; may be repeated", false, true}}),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
