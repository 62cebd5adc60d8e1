#include "core/evolve/verdict.hpp"

#include <string>

namespace kernel_evolve {

std::optional<double> CountedSpeedup(const Json& verdict) {
  const Json& correct = verdict["correct"];
  const bool counts = verdict.Text("asked") == "full" && verdict.Flag("ok") && correct.is_bool() &&
                      correct.boolean();
  const Json& speedup = verdict["metrics"]["speedup"];
  if (!counts || !speedup.is_number()) return std::nullopt;
  return speedup.number();
}

Status CheckVerdict(const Json& value) {
  const auto wrong = [](const std::string& what) {
    return Failed(ErrorClass::kInvalidOutput, "the verdict " + what);
  };
  if (!value.is_object()) return wrong("is no object");
  for (const char* member : {"stage", "asked", "reason"}) {
    if (!value[member].is_string()) return wrong("lacks the text '" + std::string(member) + "'");
  }
  if (!value["ok"].is_bool()) return wrong("lacks 'ok' (true or false)");
  const Json& correct = value["correct"];
  if (!correct.is_null() && !correct.is_bool()) return wrong("has a 'correct' that is no bool");
  const Json& metrics = value["metrics"];
  if (!metrics.is_null() && !metrics.is_object()) return wrong("has 'metrics' that are no object");
  const Json& speedup = metrics["speedup"];
  if (!speedup.is_null() && !speedup.is_number()) return wrong("has a speedup that is no number");
  return {};
}

}  // namespace kernel_evolve
