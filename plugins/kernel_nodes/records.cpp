#include "records.hpp"

#include <cstdio>
#include <tuple>

namespace kernel_nodes {
namespace {

using nlohmann::json;

const json& Metric(const json& verdict, const char* name) {
  static const json null;
  const auto metrics = verdict.find("metrics");
  if (metrics == verdict.end() || !metrics->is_object() || !metrics->contains(name)) return null;
  return metrics->at(name);
}

bool Flag(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key] == true;
}

}  // namespace

json WithVerdict(const json& candidate, const json& verdict) {
  json out = candidate;
  out["verdict"] = verdict;
  const json& speedup = Metric(verdict, "speedup");
  if (speedup.is_number()) out["speedup"] = speedup;
  return out;
}

json AttemptOf(const json& candidate, const json& verdict) {
  return {{"id", candidate.value("id", "")},
          {"summary", candidate.value("summary", "")},
          {"parent", candidate.value("parent", json())},
          {"stage", verdict.value("stage", "")},
          {"ok", verdict.value("ok", false)},
          {"correct", verdict.value("correct", json())},
          {"speedup", Metric(verdict, "speedup")},
          {"reason", verdict.value("reason", "")}};
}

bool IsCorrect(const json& verdict) { return Flag(verdict, "ok") && Flag(verdict, "correct"); }

bool IsBetter(const json& judged, const json& held) {
  if (!IsCorrect(judged.at("verdict"))) return false;
  if (!held.is_object()) return true;
  const auto rank = [](const json& candidate) {
    const json& speedup = Metric(candidate.at("verdict"), "speedup");
    return std::tuple(IsCorrect(candidate.at("verdict")), !Flag(candidate.at("verdict"), "weak"),
                      speedup.is_number() ? speedup.get<double>() : -1.0);
  };
  return rank(judged) > rank(held);
}

std::string SpeedupText(const json& judged) {
  const auto speedup = judged.find("speedup");
  if (speedup == judged.end() || !speedup->is_number()) return "";
  return Figure(*speedup) + " times as fast as eager";
}

std::string VerdictText(const json& verdict) {
  std::string out = IsCorrect(verdict) ? (Flag(verdict, "win") ? "Correct and faster" : "Correct")
                    : Flag(verdict, "ok") ? "Passed"
                                          : "Failed at the stage " + Text(verdict, "stage");
  if (const json& speedup = Metric(verdict, "speedup"); speedup.is_number()) {
    out += ", " + Figure(speedup) + " times as fast as eager";
    if (const std::string how = Text(verdict, "class"); !how.empty()) out += " (" + how + ")";
  }
  const std::string reason = Text(verdict, "reason");
  out += ": " + reason;
  if (!verdict.contains("feedback") || !verdict["feedback"].is_array()) return out;
  for (const json& line : verdict["feedback"]) {
    // Evaluators like to begin with the reason.
    if (line.is_string() && line != reason) out += "\n" + line.get<std::string>();
  }
  return out;
}

std::string Figure(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

std::string Text(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string()
             ? object[key].get<std::string>()
             : "";
}

}  // namespace kernel_nodes
