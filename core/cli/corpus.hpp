// A corpus of candidates that cheat, by mechanism, each with an honest twin: what an evaluator is
// tested with. On disk it is a folder as tests/exploits/README.md describes it. Value types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve::cli {

struct Specimen {
  std::string file;  // its name in the mechanism's folder
  std::string code;
  Json task;            // as ReadTask gives it
  bool honest = false;  // the twin
  // How the verdict of the evaluator that the corpus was written for ends; empty: not said.
  std::string stage;
  std::vector<std::string> codes;  // one of those
  bool gpu = false;                // can be told from an honest one on a GPU only
  bool legitimate = false;         // no cheat for an evaluator that measures
  std::string open;                // what happens where that evaluator doesn't catch it yet
  // Bounds where it takes all that it gets; 0: those of the evaluator.
  double seconds = 0;  // of recording
  double judge_seconds = 0;
  int64_t memory_mb = 0;
};

struct Mechanism {
  std::string name;
  std::string words;
  std::vector<Specimen> specimens;  // the twin first
};

// Reads `folder`/corpus.json and all files that it names. Every mistake is one sentence, exit 2.
Result<std::vector<Mechanism>> ReadCorpus(const std::filesystem::path& folder);

// The mechanisms of these names, in the corpus's order; all for no name.
Result<std::vector<Mechanism>> Chosen(std::vector<Mechanism> mechanisms,
                                      const std::vector<std::string>& names);

}  // namespace kernel_evolve::cli
