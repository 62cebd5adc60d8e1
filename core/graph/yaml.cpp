#include "core/graph/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace kernel_evolve::graph {
namespace {

constexpr size_t kMaxDepth = 64;

struct TooDeep {
  size_t offset;
};

// Lines and columns of the library count from 0, columns in bytes.
size_t OffsetOf(const SourceMap& source, const YAML::Mark& mark) {
  if (mark.line < 0) return 0;
  const int line = std::min(mark.line + 1, source.lines());
  const size_t column = mark.line + 1 > source.lines() ? 0 : static_cast<size_t>(mark.column);
  return std::min(source.LineStart(line) + column, source.text().size());
}

class Handler : public YAML::EventHandler {
 public:
  Handler(const SourceMap& source, RawYaml* out) : source_(source), out_(out) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++out_->documents == 2) out_->second_document = OffsetOf(source_, mark);
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Tree tree = Make(Tree::Kind::kNull, mark);
    if (anchor != 0) Odd(RawYaml::Oddity::kAnchor, &tree);
    Put(std::move(tree));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Tree tree = Make(Tree::Kind::kNull, mark);
    Odd(RawYaml::Oddity::kAlias, &tree);
    Put(std::move(tree));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Tree tree = Make(Tree::Kind::kScalar, mark);
    const char first = At(tree.offset);
    if (first == '"') tree.style = Tree::Style::kDoubleQuoted;
    if (first == '\'') tree.style = Tree::Style::kSingleQuoted;
    if (first == '|' || first == '>') tree.style = Tree::Style::kBlock;
    tree.text = value;
    Properties(tag, anchor, &tree);
    out_->last = tree;
    Put(std::move(tree));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Tree::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Tree::Kind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  std::vector<size_t> OpenOffsets() const {
    std::vector<size_t> offsets;
    for (const Frame& frame : open_) offsets.push_back(frame.tree.offset);
    return offsets;
  }

 private:
  struct Frame {
    Tree tree;
    Tree key;
    bool has_key = false;
  };

  char At(size_t offset) const {
    return offset < source_.text().size() ? source_.text()[offset] : '\0';
  }

  Tree Make(Tree::Kind kind, const YAML::Mark& mark) const {
    Tree tree;
    tree.kind = kind;
    tree.offset = OffsetOf(source_, mark);
    return tree;
  }

  void Odd(RawYaml::Oddity::Kind kind, Tree* tree) {
    out_->oddities.push_back({kind, tree->offset});
    tree->broken = true;
  }

  // The library gives "?" for a plain node and "!" for a quoted one, but also for an explicit `!`.
  void Properties(const std::string& tag, YAML::anchor_t anchor, Tree* tree) {
    const bool tagged = (!tag.empty() && tag != "?" && tag != "!") || At(tree->offset) == '!';
    if (anchor != 0) Odd(RawYaml::Oddity::kAnchor, tree);
    if (tagged) Odd(RawYaml::Oddity::kTag, tree);
  }

  void Open(Tree::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    Frame frame;
    frame.tree = Make(kind, mark);
    if (open_.size() >= kMaxDepth) throw TooDeep{frame.tree.offset};
    // A block mapping whose first key has a tag or an anchor starts at the same place as the key.
    if (anchor != 0 || (!tag.empty() && tag != "?")) Properties(tag, anchor, &frame.tree);
    open_.push_back(std::move(frame));
  }

  void Close() {
    Tree done = std::move(open_.back().tree);
    open_.pop_back();
    Put(std::move(done));
  }

  void Put(Tree tree) {
    if (open_.empty()) {
      if (out_->documents < 2) out_->root = std::move(tree);
      return;
    }
    Frame& parent = open_.back();
    if (parent.tree.is(Tree::Kind::kSequence)) {
      parent.tree.items.push_back(std::move(tree));
    } else if (!parent.has_key) {
      parent.key = std::move(tree);
      parent.has_key = true;
    } else {
      parent.tree.members.push_back({std::move(parent.key), std::move(tree)});
      parent.has_key = false;
    }
  }

  const SourceMap& source_;
  RawYaml* out_;
  std::vector<Frame> open_;
};

}  // namespace

RawYaml ReadYaml(const SourceMap& source) {
  RawYaml out;
  Handler handler(source, &out);
  const auto fail = [&](std::string problem, size_t offset) {
    out.failed = true;
    out.problem = std::move(problem);
    out.problem_offset = offset;
    out.open = handler.OpenOffsets();
  };
  try {
    std::istringstream stream(source.text());
    YAML::Parser parser(stream);
    while (out.documents < 2 && parser.HandleNextDocument(handler)) {
    }
  } catch (const TooDeep& deep) {
    out.too_deep = true;
    fail("", deep.offset);
  } catch (const YAML::Exception& e) {
    fail(e.msg, OffsetOf(source, e.mark));
  } catch (const std::exception& e) {
    fail(e.what(), 0);
  }
  return out;
}

}  // namespace kernel_evolve::graph
