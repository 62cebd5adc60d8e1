#include "core/graph/tree.hpp"

#include <algorithm>
#include <utility>

#include "core/base/text.hpp"

namespace kernel_evolve::graph {

SourceMap::SourceMap(std::string text) : text_(std::move(text)) {
  starts_.push_back(0);
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') starts_.push_back(i + 1);
  }
}

std::string_view SourceMap::Line(int line) const {
  const size_t begin = LineStart(line);
  size_t end = line < lines() ? LineStart(line + 1) - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r') --end;
  return std::string_view(text_).substr(begin, end - begin);
}

int SourceMap::LineAt(size_t offset) const {
  return static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), offset) -
                          starts_.begin());
}

SourcePos SourceMap::PosAt(size_t offset) const {
  offset = std::min(offset, text_.size());
  const int line = LineAt(offset);
  const bool onwards = last_.line == line && last_offset_ <= offset;
  const size_t from = onwards ? last_offset_ : LineStart(line);
  const int column = onwards ? last_.column : 1;
  const std::string_view between = std::string_view(text_).substr(from, offset - from);
  last_ = {line, column + static_cast<int>(CountCodePoints(between))};
  last_offset_ = offset;
  return last_;
}

SourceRange SourceMap::Range(size_t begin, size_t end) const {
  const SourcePos pos = PosAt(begin);
  const size_t line_end = LineStart(pos.line) + Line(pos.line).size();
  begin = std::min(begin, text_.size());
  end = std::clamp(end, begin, std::max(begin, line_end));
  const std::string_view covered = std::string_view(text_).substr(begin, end - begin);
  return {pos, std::max(1, static_cast<int>(CountCodePoints(covered)))};
}

namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t CharacterBytes(std::string_view text, size_t at) {
  size_t bytes = 1;
  while (at + bytes < text.size() &&
         (static_cast<unsigned char>(text[at + bytes]) & 0xC0U) == 0x80U) {
    ++bytes;
  }
  return bytes;
}

// Bytes of an escape in a double-quoted scalar that starts with the backslash at `at`.
size_t EscapeBytes(std::string_view text, size_t at) {
  const char kind = at + 1 < text.size() ? text[at + 1] : '\0';
  if (kind == 'x') return 4;
  if (kind == 'u') return 6;
  if (kind == 'U') return 10;
  return 2;
}

}  // namespace

std::vector<size_t> AlignScalar(const SourceMap& source, const Tree& scalar) {
  const std::string_view text = source.text();
  const std::string& value = scalar.text;
  size_t raw = scalar.offset;
  if (scalar.style == Tree::Style::kSingleQuoted || scalar.style == Tree::Style::kDoubleQuoted) {
    ++raw;
  }
  if (scalar.style == Tree::Style::kBlock) raw = std::min(text.find('\n', raw), text.size());
  std::vector<size_t> offsets;
  for (size_t i = 0; i < value.size();) {
    const bool escape =
        scalar.style == Tree::Style::kDoubleQuoted && raw < text.size() && text[raw] == '\\';
    if (!escape && !IsBlank(value[i])) {
      // Folding, indentation: blanks that the value does not have.
      while (raw < text.size() && IsBlank(text[raw])) ++raw;
    }
    offsets.push_back(std::min(raw, text.size()));
    const bool doubled = scalar.style == Tree::Style::kSingleQuoted && value[i] == '\'';
    const bool blank = IsBlank(value[i]);
    i += CharacterBytes(value, i);
    if (raw >= text.size()) continue;
    if (escape) {
      raw += EscapeBytes(text, raw);
    } else if (blank && (text[raw] == '\n' || text[raw] == '\r')) {
      while (raw < text.size() && IsBlank(text[raw])) ++raw;
    } else if (!blank || IsBlank(text[raw])) {
      raw += doubled ? 2 : CharacterBytes(text, raw);
    }
  }
  offsets.push_back(std::min(raw, text.size()));
  return offsets;
}

}  // namespace kernel_evolve::graph
