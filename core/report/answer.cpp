#include "core/report/answer.hpp"

#include "core/base/file.hpp"
#include "core/report/progress.hpp"

namespace kernel_evolve {
namespace {

// The last full or compile verdict of the run, for the sentence of a run without a best candidate.
const Json* LastVerdict(const Json& archive) {
  if (!archive.is_array() || archive.array().empty()) return nullptr;
  const Json& verdicts = archive.array().back()["verdicts"];
  for (const char* asked : {"full", "compile"}) {
    if (verdicts[asked].is_object()) return &verdicts[asked];
  }
  return nullptr;
}

std::string WithoutBest(const RunOutcome& outcome) {
  if (outcome.status != "done") return outcome.reason;
  const Json* last = LastVerdict(outcome.archive);
  if (last == nullptr) return "the run ended without a candidate";
  return "no candidate was shown to be correct; the last one " + VerdictLine(*last);
}

// A file to paste says where it comes from and what is known of it.
std::string BestFile(const Json& best) {
  std::string header = "# Candidate " + best.Text("id") + ", written by KernelEvolve";
  if (const std::string summary = best.Text("summary"); !summary.empty()) {
    header += ": " + summary.substr(0, summary.find('\n'));
  }
  return header + "\n# Verdict: " + VerdictLine(best["verdict"]) + ".\n" + best.Text("code");
}

}  // namespace

Answer AnswerOf(const RunOutcome& outcome) {
  Answer answer;
  answer.best = outcome.best;
  if (outcome.best.is_object() && outcome.best["verdict"].Flag("win")) {
    answer.success = true;
    answer.reason = outcome.best.Text("id") + " is " + VerdictLine(outcome.best["verdict"]);
  } else if (outcome.best.is_object()) {
    answer.reason = "no candidate is both correct and faster; the best, " +
                    outcome.best.Text("id") + ", is " + VerdictLine(outcome.best["verdict"]);
  } else {
    answer.reason = WithoutBest(outcome);
  }
  if (outcome.status == "interrupted") {
    answer.exit_code = kExitInterrupted;
  } else if (outcome.status == "parked") {
    answer.exit_code = kExitEnvironment;
  } else if (answer.success) {
    answer.exit_code = kExitOk;
  } else if (outcome.status == "failed" && outcome.error) {
    answer.exit_code = outcome.error->exit_code;
    if (!outcome.best.is_object()) answer.reason = outcome.error->message;
  }
  return answer;
}

Json ReportOf(const RunOutcome& outcome, const Answer& answer, const Json& about) {
  return Json::Obj({{"format", 1},
                    {"status", outcome.status},
                    {"status_reason", outcome.reason},
                    {"success", answer.success},
                    {"reason", answer.reason},
                    {"best", answer.best},
                    {"candidates", outcome.archive},
                    {"usage", outcome.usage},
                    {"about", about}});
}

Status WriteRunFolder(const std::filesystem::path& folder, const RunOutcome& outcome,
                      const Answer& answer, const Json& about) {
  if (answer.best.is_object()) {
    Status wrote = WriteFileAtomically(folder / "best.py", BestFile(answer.best));
    if (!wrote.ok()) return wrote;
    wrote = WriteFileAtomically(folder / "verdict.json", answer.best["verdict"].Dump(2) + "\n");
    if (!wrote.ok()) return wrote;
  }
  return WriteFileAtomically(folder / "report.json",
                             ReportOf(outcome, answer, about).Dump(2) + "\n");
}

}  // namespace kernel_evolve
