// What `evolve` and `run` share: binding a profile, executing a graph, reporting the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/cli/command.hpp"
#include "core/engine/engine.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve::cli {

// Options of both commands; append them to the command's own.
std::vector<Option> WithRunOptions(std::vector<Option> options);

struct RunRequest {
  std::string graph;          // file or name
  std::optional<Json> task;   // as ReadTask gives it
  Json inputs = Json::Obj();  // what the command sets; `--input` adds to it
};

// Runs to the end and prints progress on stderr, the answer on stdout. Returns the exit code.
int RunGraph(const Arguments& arguments, RunRequest request);

// "wall=10m,evaluations=40" to limits. Fails with exit 2 and the keys there are.
Result<graph::Budget> ParseBudget(const std::string& text);

// Below 2^53. Without --seed: `otherwise`, or drawn from the system, so that two runs differ.
Result<uint64_t> SeedFrom(const Arguments& arguments,
                          std::optional<uint64_t> otherwise = std::nullopt);

// Set by SIGINT and SIGTERM once WatchInterrupts() was called; a second signal ends the process.
const std::atomic<bool>& Interrupted();
void WatchInterrupts();

}  // namespace kernel_evolve::cli
