#include "core/base/source.hpp"

#include <algorithm>
#include <tuple>

#include "core/base/text.hpp"

namespace kernel_evolve {

namespace {

// One column per character, so that the caret and the column agree: a tab is shown as a blank, and
// nothing that a terminal would obey gets through.
std::string Excerpt(std::string line) {
  const bool readable = IsUtf8Text(line);
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20U || byte == 0x7FU) c = ' ';
    if (!readable && byte >= 0x80U) c = '?';
  }
  return line;
}

}  // namespace

std::string FormatDiagnostic(const Diagnostic& d, const std::string& source) {
  std::string out = d.file;
  if (d.range.begin.line > 0) {
    out += ":" + std::to_string(d.range.begin.line) + ":" + std::to_string(d.range.begin.column);
  }
  out += ": error[" + d.code + "]: " + d.message;
  const std::string line =
      d.range.begin.line > 0 ? Excerpt(LineOf(source, d.range.begin.line)) : "";
  if (line.empty()) {
    if (!d.hint.empty()) out += "; " + d.hint;
    return out + "\n";
  }
  std::string number = std::to_string(d.range.begin.line);
  if (number.size() < 5) number.insert(0, 5 - number.size(), ' ');
  out += "\n" + number + " | " + line + "\n" + std::string(number.size(), ' ') + " | ";
  out += std::string(static_cast<size_t>(std::max(0, d.range.begin.column - 1)), ' ') + "^";
  if (d.range.length > 1) out += std::string(static_cast<size_t>(d.range.length - 1), '~');
  if (!d.hint.empty()) out += " " + d.hint;
  return out + "\n";
}

void SortDiagnostics(std::vector<Diagnostic>* diagnostics) {
  std::stable_sort(
      diagnostics->begin(), diagnostics->end(), [](const Diagnostic& a, const Diagnostic& b) {
        return std::tie(a.file, a.range.begin, a.code) < std::tie(b.file, b.range.begin, b.code);
      });
}

}  // namespace kernel_evolve
