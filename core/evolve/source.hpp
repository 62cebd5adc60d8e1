// Identity of a candidate's source text. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace kernel_evolve {

// The text without what cannot change what Python makes of it: full-line comments, blank lines,
// white space at line ends, CR before LF. Text inside strings stays as it is. A source whose
// strings do not end is returned unchanged, so that two different programs never become equal.
std::string NormalisedSource(std::string_view source);

// SHA-256 of the normalised text.
std::string SourceHash(std::string_view source);

}  // namespace kernel_evolve
