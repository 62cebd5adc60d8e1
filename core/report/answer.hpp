// The answer of a run: what it hands over, whether that is a success, and the files that say so.
#pragma once

#include <filesystem>
#include <string>

#include "core/engine/engine.hpp"

namespace kernel_evolve {

struct Answer {
  bool success = false;  // a verdict says correct and faster
  std::string reason;    // one sentence, for a success as for a failure
  Json best;             // the best verified candidate, or null
  ExitCode exit_code = kExitFailed;
};

// Success only when the best candidate's verdict is a win; otherwise the reason says what stopped
// the run and what the nearest candidate lacked.
Answer AnswerOf(const RunOutcome& outcome);

// Writes best.py and verdict.json (when there is a best candidate) and report.json, each whole or
// not at all. Errors: unavailable (exit 3) when the disk is full.
Status WriteRunFolder(const std::filesystem::path& folder, const RunOutcome& outcome,
                      const Answer& answer, const Json& about);

// The report: {"status", "success", "reason", "best", "candidates", "usage", "about"}.
Json ReportOf(const RunOutcome& outcome, const Answer& answer, const Json& about);

}  // namespace kernel_evolve
