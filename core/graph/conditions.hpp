// `when:` without quotes, looked at in the raw text: YAML quietly reads a comma, a brace, a '#' or
// a leading '!' as something else than the author meant. Internal to graph/.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/base/source.hpp"
#include "core/graph/tree.hpp"

namespace kernel_evolve::graph {

// Looks at the value after the key `when` that ends at byte `key_end`; `flow` when it stands inside
// { }. `value` is what YAML read, if it read anything. The diagnostic's file is left empty.
std::optional<Diagnostic> CheckUnquotedCondition(const SourceMap& source, size_t key_end, bool flow,
                                                 const Tree* value);

// The same for a text that YAML could not read: the first `when:` in that line that is wrong.
std::optional<Diagnostic> FindUnquotedCondition(const SourceMap& source, int line);

// One past the closing quote of the quoted scalar at `offset`; npos when it is never closed.
size_t EndOfQuoted(const std::string& text, size_t offset);

}  // namespace kernel_evolve::graph
