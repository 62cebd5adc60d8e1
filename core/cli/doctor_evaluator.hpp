// The part of doctor that tests an evaluator.
#pragma once

#include <vector>

#include "core/cli/command.hpp"

namespace kernel_evolve::cli {

// Options that go with --evaluator; append them to doctor's own.
std::vector<Option> WithEvaluatorOptions(std::vector<Option> options);

// Runs a corpus of candidates that cheat, and of honest twins, through the evaluator of --profile,
// and prints a line per mechanism. Returns the exit code: 1 where an exploit wins or a twin doesn't
// pass.
int TestEvaluator(const Arguments& arguments);

}  // namespace kernel_evolve::cli
