#include "core/report/progress.hpp"

#include <cmath>
#include <string>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

std::string Stopwatch(double seconds) {
  const auto whole = static_cast<int>(seconds);
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%d:%02d", whole / 60, whole % 60);
  return buffer;
}

std::string Figure(double value, int digits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  return buffer;
}

std::string Who(const Json& event) {
  const std::string node = event.Text("node");
  return event.contains("visit") ? node + " " + std::to_string(event.Integer("visit")) : node;
}

}  // namespace

std::string VerdictLine(const Json& verdict) {
  if (!verdict.Flag("ok")) {
    const std::string stage = verdict.Text("stage");
    return "failed at " + stage + ": " + verdict.Text("reason");
  }
  if (verdict.Text("asked") == "compile") return "compiles";
  const Json& speedup = verdict["metrics"]["speedup"];
  std::string line = verdict.Flag("correct") ? "correct" : "not shown to be correct";
  if (verdict.Flag("weak")) line += " (weak: too few checks counted)";
  if (speedup.is_number()) {
    const Json& metrics = verdict["metrics"];
    line += ", " + Figure(speedup.number(), 4) + " times as fast as eager (" +
            Figure(metrics.Number("optimized_time"), 3) + " ms against " +
            Figure(metrics.Number("original_time"), 3) + " ms";
    line += verdict.Text("class") == "modelled" ? ", modelled)" : ", measured)";
  }
  return line;
}

std::string UsageLine(const Json& use) {
  const auto count = [](int64_t n, const char* one, const char* many) {
    return std::to_string(n) + " " + (n == 1 ? one : many);
  };
  const int64_t calls = use.Integer("calls");
  std::string line = count(calls, "call", "calls");
  if (const int64_t n = use.Integer("errors"); n > 0) line += ", " + count(n, "failed", "failed");
  if (const int64_t n = use.Integer("retries"); n > 0) line += ", " + count(n, "retry", "retries");
  if (use.Integer("input_tokens") + use.Integer("output_tokens") > 0) {
    line += ", " + std::to_string(use.Integer("input_tokens")) + " tokens in";
    if (const int64_t n = use.Integer("cached_tokens"); n > 0) {
      line += " (" + std::to_string(n) + " cached)";
    }
    line += ", " + std::to_string(use.Integer("output_tokens")) + " out";
  }
  if (use.Number("cost") > 0) line += ", cost " + Figure(use.Number("cost"), 4);
  if (calls > 0) {
    line += ", " + FormatSeconds(use.Number("seconds") / static_cast<double>(calls)) + " a call";
  }
  return line;
}

void ProgressPrinter::Line(double at, const std::string& who, const std::string& text) {
  std::fprintf(out_, "%6s  %-12s %s\n", Stopwatch(at).c_str(), who.c_str(), text.c_str());
  std::fflush(out_);
}

void ProgressPrinter::OnEvent(const Json& event) {
  const std::string kind = event.Text("event");
  const double at = event.Number("at");
  if (kind == "progress") {
    const std::string text = event["data"].Text("text");
    if (!text.empty()) Line(at, Who(event), text);
  } else if (kind == "effect_finished" && event.Text("kind") == "evaluate" &&
             event["verdict"].is_object()) {
    Line(at, Who(event), event.Text("candidate") + ": " + VerdictLine(event["verdict"]));
  } else if (kind == "effect_finished" && event.Text("kind") == "llm_complete" &&
             !event.Text("summary").empty()) {
    Line(at, Who(event), event.Text("summary"));
  } else if (kind == "effect_reused") {
    Line(at, Who(event), event.Text("candidate") + ": judged before, the verdict is reused");
  } else if (kind == "node_failed") {
    Line(at, Who(event), event.Text("class") + ": " + event.Text("message"));
  }
}

}  // namespace kernel_evolve
