#include "core/evolve/source.hpp"

#include <optional>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

// Follows Python's strings from line to line. Only triple-quoted strings, and strings continued by
// a backslash, reach over a line end.
class StringTracker {
 public:
  bool inside() const { return !quote_.empty(); }
  bool lost() const { return lost_; }

  void Take(std::string_view line) {
    size_t at = 0;
    while (at < line.size() && !lost_) at = inside() ? InString(line, at) : InCode(line, at);
    const bool continued = !line.empty() && line.back() == '\\';
    if (quote_.size() == 1 && !continued) lost_ = true;
  }

 private:
  size_t InCode(std::string_view line, size_t at) {
    const char c = line[at];
    if (c == '#') return line.size();
    if (c != '"' && c != '\'') return at + 1;
    const std::string triple(3, c);
    quote_ = line.substr(at, 3) == triple ? triple : std::string(1, c);
    return at + quote_.size();
  }

  size_t InString(std::string_view line, size_t at) {
    // In a raw string, too, a backslash keeps the quote after it from ending the string.
    if (line[at] == '\\') return at + 2;
    if (line.substr(at, quote_.size()) != quote_) return at + 1;
    const size_t next = at + quote_.size();
    quote_.clear();
    return next;
  }

  std::string quote_;  // what ends the string we are in; empty: in code
  bool lost_ = false;  // a string that Python would refuse, or nesting that we do not follow
};

std::string_view WithoutTrailingSpace(std::string_view line) {
  const size_t last = line.find_last_not_of(" \t\f\r");
  return last == std::string_view::npos ? std::string_view{} : line.substr(0, last + 1);
}

bool IsComment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\f");
  return first != std::string_view::npos && line[first] == '#';
}

}  // namespace

std::string NormalisedSource(std::string_view source) {
  std::string out;
  StringTracker strings;
  bool continued = false;  // by a backslash: then the next line belongs to this one, blank or not
  for (std::string& text : Split(source, '\n')) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    const bool begins_inside = strings.inside();
    const bool dropped =
        !begins_inside && !continued && (WithoutTrailingSpace(text).empty() || IsComment(text));
    if (dropped) continue;
    strings.Take(text);
    if (strings.lost()) return std::string(source);
    std::string_view kept = text;
    if (!strings.inside()) {
      const std::string_view trimmed = WithoutTrailingSpace(text);
      // "\ " at a line end is an error in Python and "\" is none.
      if (trimmed.empty() || trimmed.back() != '\\') kept = trimmed;
    }
    continued = !kept.empty() && kept.back() == '\\';
    out.append(kept).push_back('\n');
  }
  return strings.inside() ? std::string(source) : out;
}

std::string SourceHash(std::string_view source) { return Sha256Hex(NormalisedSource(source)); }

}  // namespace kernel_evolve
