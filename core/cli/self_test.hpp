// What the self-test of an evaluator makes of its verdicts on a corpus. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/cli/corpus.hpp"

namespace kernel_evolve::cli {

// What an evaluator is held to.
struct Standard {
  bool measures = false;  // its times are no model's
  bool named = false;     // the corpus's stages and codes are those of this evaluator
};

enum class Role { kExploit, kTwin, kLeftOut };

// A twin is also what is no cheat for such an evaluator; left out is what it has no means to tell.
Role RoleOf(const Specimen& specimen, const Standard& standard);

struct Finding {
  std::string file;
  Role role = Role::kExploit;
  bool holds = false;    // the exploit is no win, or the twin passes
  bool good = false;     // it also ends where the corpus says, or is known not to
  std::string ending;    // "correctness/uncovered"
  std::string sentence;  // what is to be said of it; empty: nothing
  Json verdict;          // null where there is none
};

Finding Judge(const Specimen& specimen, const Standard& standard, const Result<Json>& verdict);

// The findings of one mechanism, in the order of its specimens.
struct MechanismResult {
  const Mechanism* mechanism = nullptr;
  std::vector<Finding> findings;
  bool good() const;
};

// "2 correctness/uncovered, 1 policy/import; twin done/faster"
std::string EndingsLine(const MechanismResult& result);

struct Tally {
  int exploits = 0;
  int no_win = 0;
  int elsewhere = 0;  // no win, but not where the corpus says
  int twins = 0;
  int pass = 0;
  bool good = true;
};

Tally Count(const std::vector<MechanismResult>& results);

// "187 of 187 exploits are no win, 60 of 60 honest twins pass"
std::string TallyLine(const Tally& tally);

// {"exploits", "no_win", "elsewhere", "twins", "pass", "ok", "mechanisms": [...]}
Json TallyJson(const std::vector<MechanismResult>& results);

}  // namespace kernel_evolve::cli
