// Regular expressions for matches(), in time linear in the text. Internal to expr/.
#pragma once

#include <string_view>

#include "core/base/result.hpp"

namespace kernel_evolve::expr {

// Whether `pattern` is found anywhere in `text`. Knows . [a-z] [^a] ( ) | * + ? ^ $ and the classes
// \d \w \s \D \W \S; a backslash makes any other punctuation literal. No counts, groups to refer to
// or look-around. Fails with class `validation` on a pattern that is malformed or over 256
// characters, and on a text over 64 KiB. Bytes: `.` and [^a] take a letter beyond ASCII for
// several.
Result<bool> MatchPattern(std::string_view pattern, std::string_view text);

}  // namespace kernel_evolve::expr
