// Live progress of a run: one line for everything that a person waits for.
#pragma once

#include <cstdio>

#include "core/engine/engine.hpp"

namespace kernel_evolve {

// Prints events as lines on `out` (borrowed). Not synchronised: the engine calls it on one thread.
class ProgressPrinter : public RunObserver {
 public:
  explicit ProgressPrinter(std::FILE* out) : out_(out) {}
  void OnEvent(const Json& event) override;

 private:
  void Line(double at, const std::string& who, const std::string& text);
  std::FILE* out_;
};

// "compile: no, 3 lines" or "correct, 53.1x": what a verdict comes to, on one line. Text says
// "modelled" wherever the figure was modelled.
std::string VerdictLine(const Json& verdict);

// One model's entry of a run's usage: "13 calls, 2 retries, 45210 tokens in, 12044 out, cost 0.12,
// 4.2 s a call". Leaves out what is zero.
std::string UsageLine(const Json& use);

}  // namespace kernel_evolve
