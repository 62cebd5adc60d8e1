// Version ranges of `requires`: ">=1.0 <2", "^1.2", "~1.2.3", "1.2.3". Internal to graph/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kernel_evolve::graph {

// Whether the range is well-formed: comparators (>= > <= < = ^ ~ or none) on versions of one to
// three numbers, separated by blanks, all of which must hold.
bool IsVersionRange(std::string_view range);

// Whether `version` lies in `range`; false when either is malformed. A pre-release or build suffix
// of the version is ignored.
bool VersionInRange(std::string_view version, std::string_view range);

}  // namespace kernel_evolve::graph
