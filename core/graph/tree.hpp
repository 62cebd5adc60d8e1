// A YAML document as our own tree: every node knows where it stands. Internal to graph/.
//
// Only what a graph needs of YAML is let through; the rest (tags, anchors, aliases, merge keys,
// several documents) is refused here, as are duplicate keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/source.hpp"

namespace kernel_evolve::graph {

struct Member;

struct Tree {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  enum class Style { kPlain, kSingleQuoted, kDoubleQuoted, kBlock };

  Kind kind = Kind::kNull;
  Style style = Style::kPlain;  // of a scalar
  SourceRange range;            // one caret for a sequence or mapping
  size_t offset = 0;            // bytes into the text
  std::string text;             // of a scalar, as YAML reads it
  std::vector<Tree> items;
  std::vector<Member> members;  // in document order, keys unique
  bool broken = false;          // an error about it is reported already: say no more

  bool is(Kind other) const { return kind == other; }
  bool quoted() const { return style != Style::kPlain; }
};

struct Member {
  Tree key;  // a scalar
  Tree value;
};

// Positions in a text. Byte offsets in, lines and characters out.
class SourceMap {
 public:
  explicit SourceMap(std::string text);

  const std::string& text() const { return text_; }
  int lines() const { return static_cast<int>(starts_.size()); }
  size_t LineStart(int line) const { return starts_[static_cast<size_t>(line - 1)]; }  // from 1
  std::string_view Line(int line) const;  // without its line end
  int LineAt(size_t offset) const;
  SourcePos PosAt(size_t offset) const;
  // From `begin` up to `end`, cut at the end of the first line; at least one character.
  SourceRange Range(size_t begin, size_t end) const;

 private:
  std::string text_;
  std::vector<size_t> starts_;
  // The last answer: most questions come in ascending order, and lines can be megabytes long.
  mutable size_t last_offset_ = 0;
  mutable SourcePos last_ = {1, 1};
};

struct Document {
  Tree root;
  SourceMap source{""};
  std::vector<Diagnostic> diagnostics;
  bool usable = false;  // false: the text has no tree; the diagnostics say why
};

// Parses and refuses. At most 4 MiB and 64 levels; `file` stands in the diagnostics.
Document ParseDocument(std::string text, const std::string& file);

// Byte offset into the source for every character of a scalar's text, and one past the last.
// Approximate inside exotic escapes; never outside the document.
std::vector<size_t> AlignScalar(const SourceMap& source, const Tree& scalar);

}  // namespace kernel_evolve::graph
