#include "core/cli/self_test.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/text.hpp"
#include "core/report/progress.hpp"

namespace kernel_evolve::cli {
namespace {

constexpr char kWinningCode[] = "faster";

std::string EndingOf(const Json& verdict) {
  const std::string code = verdict.Text("code");
  return verdict.Text("stage") + (code.empty() ? "" : "/" + code);
}

bool EndsAsNamed(const Specimen& specimen, const Json& verdict) {
  const std::vector<std::string>& codes = specimen.codes;
  return (specimen.stage.empty() || verdict.Text("stage") == specimen.stage) &&
         (codes.empty() || std::count(codes.begin(), codes.end(), verdict.Text("code")) > 0);
}

std::string NamedEnding(const Specimen& specimen) {
  return specimen.stage + "/" + Join(specimen.codes, " or ");
}

void JudgeTwin(const Specimen& specimen, const Standard& standard, const Json& verdict,
               Finding* finding) {
  finding->holds = verdict.Flag("correct");
  if (!finding->holds) {
    finding->sentence = "an honest one that doesn't pass: " + VerdictLine(verdict);
  } else if (standard.named && specimen.honest) {
    const bool wins = specimen.codes == std::vector<std::string>{kWinningCode};
    finding->holds = EndsAsNamed(specimen, verdict) && verdict.Flag("win") == wins;
    if (!finding->holds) {
      finding->sentence = "an honest one that should end at " + NamedEnding(specimen) + ", not " +
                          finding->ending + ": " + verdict.Text("reason");
    }
  }
  finding->good = finding->holds;
}

void JudgeExploit(const Specimen& specimen, const Standard& standard, const Json& verdict,
                  Finding* finding) {
  finding->holds = !verdict.Flag("win");
  finding->good = finding->holds && (!standard.named || EndsAsNamed(specimen, verdict));
  if (!finding->holds) {
    finding->sentence = "an exploit that wins: " + VerdictLine(verdict);
  } else if (!finding->good) {
    finding->sentence = "no win, but it should end at " + NamedEnding(specimen) + ", not " +
                        finding->ending + ": " + verdict.Text("reason");
  }
}

const char* RoleName(Role role) {
  switch (role) {
    case Role::kExploit:
      return "exploit";
    case Role::kTwin:
      return "twin";
    case Role::kLeftOut:
      return "left_out";
  }
  return "?";
}

Json JsonOf(const Finding& finding) {
  Json out = Json::Obj({{"file", finding.file}, {"role", RoleName(finding.role)}});
  if (finding.role == Role::kLeftOut) return out;
  out["ok"] = finding.good;
  if (!finding.sentence.empty()) out["finding"] = finding.sentence;
  for (const char* member : {"stage", "code", "win", "correct", "reason", "class"}) {
    out[member] = std::as_const(finding.verdict)[member];
  }
  return out;
}

std::string Of(int some, int all) { return std::to_string(some) + " of " + std::to_string(all); }

}  // namespace

Role RoleOf(const Specimen& specimen, const Standard& standard) {
  if (specimen.honest || (specimen.legitimate && standard.measures)) return Role::kTwin;
  return specimen.gpu && !standard.measures ? Role::kLeftOut : Role::kExploit;
}

Finding Judge(const Specimen& specimen, const Standard& standard, const Result<Json>& verdict) {
  Finding finding;
  finding.file = specimen.file;
  finding.role = RoleOf(specimen, standard);
  if (!verdict) {
    finding.ending = "no verdict";
    finding.sentence = "no verdict: " + verdict.error().message;
  } else {
    finding.verdict = *verdict;
    finding.ending = EndingOf(*verdict);
    (finding.role == Role::kTwin ? JudgeTwin : JudgeExploit)(specimen, standard, *verdict,
                                                             &finding);
  }
  if (standard.named && !specimen.open.empty()) {
    finding.sentence = finding.good ? "known to get through, but caught now"
                                    : "known to get through: " + specimen.open;
    finding.good = true;
  }
  return finding;
}

bool MechanismResult::good() const {
  return std::all_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.good; });
}

std::string EndingsLine(const MechanismResult& result) {
  std::map<std::string, int> endings;
  std::string twin;
  for (const Finding& finding : result.findings) {
    if (finding.role == Role::kExploit) ++endings[finding.ending];
    if (finding.role == Role::kTwin && twin.empty()) twin = finding.ending;
  }
  std::vector<std::string> parts;
  parts.reserve(endings.size());
  for (const auto& [ending, count] : endings) {
    parts.push_back(std::to_string(count) + " " + ending);
  }
  return Join(parts, ", ") + (parts.empty() ? "" : "; ") + "twin " + twin;
}

Tally Count(const std::vector<MechanismResult>& results) {
  Tally tally;
  for (const MechanismResult& result : results) {
    tally.good = tally.good && result.good();
    for (const Finding& finding : result.findings) {
      const bool twin = finding.role == Role::kTwin;
      if (finding.role == Role::kLeftOut) continue;
      ++(twin ? tally.twins : tally.exploits);
      if (finding.holds) ++(twin ? tally.pass : tally.no_win);
      if (finding.holds && !finding.good) ++tally.elsewhere;
    }
  }
  return tally;
}

std::string TallyLine(const Tally& tally) {
  std::string line = Of(tally.no_win, tally.exploits) + " exploits are no win, " +
                     Of(tally.pass, tally.twins) + " honest twins pass";
  if (tally.elsewhere > 0) {
    line += "; " + std::to_string(tally.elsewhere) + " no win for another reason than the corpus's";
  }
  return line;
}

Json TallyJson(const std::vector<MechanismResult>& results) {
  const Tally tally = Count(results);
  Json mechanisms = Json::Arr();
  for (const MechanismResult& result : results) {
    Json candidates = Json::Arr();
    for (const Finding& finding : result.findings) candidates.push_back(JsonOf(finding));
    mechanisms.push_back(Json::Obj({{"name", result.mechanism->name},
                                    {"mechanism", result.mechanism->words},
                                    {"ok", result.good()},
                                    {"candidates", std::move(candidates)}}));
  }
  return Json::Obj({{"exploits", tally.exploits},
                    {"no_win", tally.no_win},
                    {"elsewhere", tally.elsewhere},
                    {"twins", tally.twins},
                    {"pass", tally.pass},
                    {"ok", tally.good},
                    {"mechanisms", std::move(mechanisms)}});
}

}  // namespace kernel_evolve::cli
