// kernel-evolve run: any graph with any inputs.
#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"
#include "core/cli/run_graph.hpp"

namespace kernel_evolve::cli {
namespace {

int Run(const Arguments& arguments) {
  RunRequest request;
  request.graph = arguments.Get("GRAPH");
  if (arguments.Has("--task")) {
    const Result<Json> task = ReadTask(arguments.Get("--task"));
    if (!task) return Fail(task.error());
    request.task = *task;
  }
  return RunGraph(arguments, std::move(request));
}

const Registration kThis(
    {"run", "Runs a graph with the inputs given",
     WithRunOptions({{"GRAPH", "", "Graph file, or name of an installed one", true},
                     {"--task", "FILE", "The task, for graphs that take one"}}),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
