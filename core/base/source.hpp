// Positions in a document that a user wrote, and the diagnostics that point at them.
// Value types; safe to copy between threads.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace kernel_evolve {

// Line and column count from 1; the column counts characters (code points), not bytes.
struct SourcePos {
  int line = 0;
  int column = 0;
  auto operator<=>(const SourcePos&) const = default;
};

// A stretch on one line: `length` characters from `begin`. A length of 0 is shown as one caret.
struct SourceRange {
  SourcePos begin;
  int length = 0;
};

// One error of meaning in a document. `code` is stable ("KE1103"); `hint` may be empty.
struct Diagnostic {
  std::string code;
  std::string file;
  SourceRange range;
  std::string message;
  std::string hint;
};

// Renders "file:line:col: error[CODE]: message" with the source line and a caret under it.
// `source` is the whole text of `diagnostic.file`; the excerpt is left out when it is empty.
std::string FormatDiagnostic(const Diagnostic& diagnostic, const std::string& source);

// Sorts by position, then code.
void SortDiagnostics(std::vector<Diagnostic>* diagnostics);

}  // namespace kernel_evolve
