// What a graph's models and its evaluator stand for: from --profile, --model and --replay, or the
// defaults: the offline author for every model, and the simulator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/cli/command.hpp"
#include "core/engine/engine.hpp"
#include "core/graph/graph.hpp"
#include "core/graph/profile.hpp"

namespace kernel_evolve::cli {

// The evaluator where no profile names one.
inline constexpr char kDefaultEvaluator[] = "simulator";

// Options that choose models; append them to the command's own.
std::vector<Option> WithModelOptions(std::vector<Option> options);

struct Bindings {
  std::map<std::string, ModelBinding> models;
  EvaluatorBinding evaluator;
  std::vector<std::vector<std::string>> launch;  // see Profile
  std::optional<uint64_t> seed;                  // of the run that --replay repeats
};

// `graph` is nullptr for a command that needs the evaluator alone.
Result<Bindings> Bind(const Arguments& arguments, const graph::Graph* graph,
                      const Registry& registry);

// The profile that `wanted`, a file or the name of an installed one, stands for. Prints every
// diagnostic on stderr when there are some (exit 2).
Result<graph::Profile> OpenProfile(const std::string& wanted);

// "; did you mean 'openai'? Installed: anthropic, offline, openai."
std::string KnownTypes(const Registry& registry, TypeKind kind, const std::string& wanted);

}  // namespace kernel_evolve::cli
