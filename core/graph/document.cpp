#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/text.hpp"
#include "core/graph/conditions.hpp"
#include "core/graph/fields.hpp"
#include "core/graph/tree.hpp"
#include "core/graph/yaml.hpp"

namespace kernel_evolve::graph {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20U;

bool StartsWithBlankAndTab(std::string_view line, size_t* tab) {
  for (size_t i = 0; i < line.size() && (line[i] == ' ' || line[i] == '\t'); ++i) {
    if (line[i] != '\t') continue;
    *tab = i;
    return true;
  }
  return false;
}

class Reader {
 public:
  Reader(std::string file, Document* document) : file_(std::move(file)), document_(document) {}

  void Run() {
    if (!CheckBytes()) return;
    RawYaml raw = ReadYaml(source());
    if (raw.failed) {
      Report(Explain(raw));
      return;
    }
    if (raw.documents == 0 || (raw.root.is(Tree::Kind::kNull) && !raw.root.broken)) {
      Report({"KE1012", file_, {}, "the document is empty", ""});
      return;
    }
    if (raw.documents > 1) {
      Report({"KE1012", file_, source().Range(raw.second_document, raw.second_document + 3),
              "a second document starts here", "keep one document in a file"});
    }
    for (const RawYaml::Oddity& oddity : raw.oddities) ReportOddity(oddity);
    document_->root = std::move(raw.root);
    document_->usable = true;
    Visit(&document_->root);
    // A quote that swallowed the rest of the text makes everything else meaningless.
    if (!document_->usable) {
      Diagnostic alone = document_->diagnostics.back();
      document_->diagnostics = {std::move(alone)};
    }
  }

 private:
  const SourceMap& source() const { return document_->source; }
  void Report(Diagnostic diagnostic) { document_->diagnostics.push_back(std::move(diagnostic)); }

  bool CheckBytes() {
    const std::string& text = source().text();
    if (text.size() > kMaxBytes) {
      Report({"KE1002", file_, {}, "the document is larger than 4 MiB", ""});
      return false;
    }
    const std::string_view head = std::string_view(text).substr(0, 2);
    if (head == "\xFF\xFE" || head == "\xFE\xFF") {
      Report({"KE1003", file_, {}, "the file is UTF-16", "save it as UTF-8"});
      return false;
    }
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool stray_return = c == '\r' && (i + 1 >= text.size() || text[i + 1] != '\n');
      const bool control =
          static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
      if (!stray_return && !control) continue;
      const SourceRange range = source().Range(i, i + 1);
      if (c == '\0') {
        Report({"KE1003", file_, range, "a NUL byte: this is not a text file", ""});
      } else if (stray_return) {
        Report({"KE1003", file_, range, "a carriage return without its line feed",
                "end lines with a line feed"});
      } else {
        Report({"KE1003", file_, range, "a control character", "remove it"});
      }
      return false;
    }
    if (IsUtf8Text(text)) return true;
    const auto line_is_bad = [this](int line) { return !IsUtf8Text(source().Line(line)); };
    int line = 1;
    while (line < source().lines() && (source().Line(line).empty() || !line_is_bad(line))) ++line;
    Report({"KE1003", file_, {{line, 1}, 0}, "this line is not UTF-8", "save the file as UTF-8"});
    return false;
  }

  void ReportOddity(const RawYaml::Oddity& oddity) {
    const std::string& text = source().text();
    const size_t end = std::min(text.find_first_of(" \t\r\n,]}", oddity.offset), text.size());
    const std::string word = text.substr(oddity.offset, end - oddity.offset);
    const SourceRange range = source().Range(oddity.offset, end);
    switch (oddity.kind) {
      case RawYaml::Oddity::kTag:
        Report({"KE1009", file_, range, "the tag " + Quoted(word) + " has no meaning here",
                "quote this if it is text"});
        break;
      case RawYaml::Oddity::kAnchor:
        Report({"KE1010", file_, range, "the anchor " + Quoted(word) + " has no meaning here",
                "quote this if it is text"});
        break;
      case RawYaml::Oddity::kAlias:
        Report({"KE1010", file_, range, "the alias " + Quoted(word) + " has no meaning here",
                "write it out, or quote this if it is text"});
        break;
    }
  }

  void Visit(Tree* tree) {
    if (!document_->usable) return;
    CheckTab(*tree);
    switch (tree->kind) {
      case Tree::Kind::kScalar:
        Measure(tree);
        return;
      case Tree::Kind::kNull:
        tree->range = source().Range(tree->offset, tree->offset + 1);
        return;
      case Tree::Kind::kSequence:
        tree->range = source().Range(tree->offset, tree->offset + 1);
        for (Tree& item : tree->items) Visit(&item);
        return;
      case Tree::Kind::kMapping:
        tree->range = source().Range(tree->offset, tree->offset + 1);
        return VisitMapping(tree);
    }
  }

  void VisitMapping(Tree* tree) {
    std::unordered_map<std::string, int> lines;
    std::vector<Member> kept;
    for (Member& member : tree->members) {
      Visit(&member.key);
      if (!document_->usable) return;
      CheckCondition(tree, member);
      Visit(&member.value);
      if (!document_->usable) return;
      // What is not there is shown where its key is; the library points past it.
      if (member.value.is(Tree::Kind::kNull) && !member.value.broken) {
        member.value.range = member.key.range;
      }
      if (tree->broken || KeyIsFine(member.key, &lines)) kept.push_back(std::move(member));
    }
    tree->members = std::move(kept);
  }

  bool KeyIsFine(const Tree& key, std::unordered_map<std::string, int>* lines) {
    if (key.broken) return false;
    if (!key.is(Tree::Kind::kScalar)) {
      Report({"KE1013", file_, key.range, "a key must be a plain word", ""});
      return false;
    }
    if (key.text == "<<" && !key.quoted()) {
      Report({"KE1011", file_, key.range, "merge keys have no meaning here", "write it out"});
      return false;
    }
    const auto [first, fresh] = lines->emplace(key.text, key.range.begin.line);
    if (fresh) return true;
    Report({"KE1008", file_, key.range, "the key " + Quoted(key.text) + " is there twice",
            "the first one is in line " + std::to_string(first->second)});
    return false;
  }

  // Sets the range of a scalar, and notices a quote that never ends, which the library accepts.
  void Measure(Tree* tree) {
    const std::string& text = source().text();
    size_t end = tree->offset + tree->text.size();
    if (tree->style == Tree::Style::kBlock) {
      end = tree->offset + 1;
    } else if (tree->quoted()) {
      end = EndOfQuoted(text, tree->offset);
      if (end == std::string::npos) {
        Report(Unterminated(*tree));
        document_->usable = false;
        return;
      }
    } else if (text.compare(tree->offset, tree->text.size(), tree->text) != 0) {
      end = text.size();  // over several lines: up to the end of the first
    }
    tree->range = source().Range(tree->offset, end);
  }

  Diagnostic Unterminated(const Tree& tree) {
    return {"KE1006", file_, source().Range(tree.offset, tree.offset + 1),
            "the quote that opens here is never closed", "close it"};
  }

  void CheckTab(const Tree& tree) {
    const int line = source().LineAt(std::min(tree.offset, source().text().size()));
    if (line == last_tab_line_) return;
    const std::string_view before =
        std::string_view(source().text())
            .substr(source().LineStart(line), tree.offset - source().LineStart(line));
    size_t tab = 0;
    if (before.find_first_not_of(" \t") != std::string_view::npos ||
        !StartsWithBlankAndTab(before, &tab) || tree.is(Tree::Kind::kNull)) {
      return;
    }
    last_tab_line_ = line;
    Report(Tab(source().LineStart(line) + tab));
  }

  Diagnostic Tab(size_t offset) {
    return {"KE1004", file_, source().Range(offset, offset + 1), "a tab in the indentation",
            "indent with spaces"};
  }

  void CheckCondition(Tree* mapping, const Member& member) {
    if (member.key.text != "when" || member.key.quoted() || member.key.broken) return;
    const bool flow = source().text()[mapping->offset] == '{';
    const std::optional<Diagnostic> wrong =
        CheckUnquotedCondition(source(), member.key.offset + 4, flow, &member.value);
    if (!wrong) return;
    Report(*wrong);
    document_->diagnostics.back().file = file_;
    // Whatever YAML made of the rest of the line means nothing; its other errors are noise.
    mapping->broken = true;
    const SourceRange range = wrong->range;
    auto& all = document_->diagnostics;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&range](const Diagnostic& d) {
                               return d.code != "KE1007" && d.range.begin.line == range.begin.line;
                             }),
              all.end());
  }

  // The library's complaint in our words.
  Diagnostic Explain(const RawYaml& raw) {
    const std::string& text = source().text();
    const size_t at = raw.problem_offset;
    if (raw.too_deep) {
      return {"KE1014", file_, source().Range(at, at + 1), "nested more than 64 levels deep", ""};
    }
    const int line = source().LineAt(std::min(at, text.size()));
    for (int near = line; near >= std::max(1, line - 1); --near) {
      if (std::optional<Diagnostic> wrong = FindUnquotedCondition(source(), near)) {
        wrong->file = file_;
        return *wrong;
      }
    }
    size_t tab = 0;
    if (StartsWithBlankAndTab(source().Line(line), &tab) || Has(raw.problem, "illegal tab")) {
      return Tab(source().LineStart(line) + tab);
    }
    if (std::optional<Diagnostic> quote = ExplainQuote(raw)) return *quote;
    Diagnostic plain{"KE1005", file_, source().Range(at, at + 1), "", ""};
    const bool map_flow = Has(raw.problem, "end of map flow");
    const bool list_flow = Has(raw.problem, "end of sequence flow");
    if ((map_flow || list_flow) && !raw.open.empty()) {
      plain.range = source().Range(raw.open.back(), raw.open.back() + 1);
      plain.message = std::string("the '") + (map_flow ? "{" : "[") +
                      "' that opens here is not closed where it should be";
      plain.hint = std::string("close it with '") + (map_flow ? "}" : "]") + "' and quote texts";
    } else if (Has(raw.problem, "illegal map value")) {
      plain.message = "a ':' is not allowed here";
      plain.hint = "quote the text it belongs to, or check the indentation";
    } else if (Has(raw.problem, "end of map") || Has(raw.problem, "end of sequence")) {
      plain.message = "this does not fit what stands above it";
      plain.hint = "check the indentation, or quote the whole text";
    } else if (Has(raw.problem, "illegal block entry")) {
      plain.message = "a list item is not allowed here";
      plain.hint = "start the list on a line of its own";
    } else if (Has(raw.problem, "unknown token")) {
      const std::string first = at < text.size() ? text.substr(at, 1) : "";
      plain.message = "a value cannot begin with '" + first + "'";
      plain.hint = "quote this";
    } else if (Has(raw.problem, "unknown escape")) {
      plain.message = "an unknown escape in a double-quoted text";
      plain.hint = "write '\\\\' for one backslash, or use single quotes";
    } else if (Has(raw.problem, "anchor is not defined")) {
      plain.code = "KE1010";
      plain.message = "aliases have no meaning here";
      plain.hint = "write it out, or quote this if it is text";
    } else {
      plain.message = "this is not valid YAML (" + raw.problem + ")";
    }
    return plain;
  }

  static bool Has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }

  // A forgotten closing quote shows up lines later, where the next quote happens to be.
  std::optional<Diagnostic> ExplainQuote(const RawYaml& raw) {
    if (Has(raw.problem, "illegal EOF in scalar")) {
      return Diagnostic{"KE1006", file_, source().Range(raw.problem_offset, raw.problem_offset + 1),
                        "a quote is never closed", "close it"};
    }
    const Tree& last = raw.last;
    const bool quoted =
        last.style == Tree::Style::kSingleQuoted || last.style == Tree::Style::kDoubleQuoted;
    if (!quoted) return std::nullopt;
    const size_t end = EndOfQuoted(source().text(), last.offset);
    if (end == std::string::npos) return Unterminated(last);
    const int first_line = source().LineAt(last.offset);
    const int last_line = source().LineAt(end);
    if (first_line == last_line || source().LineAt(raw.problem_offset) != last_line) {
      return std::nullopt;
    }
    return Diagnostic{"KE1006", file_, source().Range(last.offset, last.offset + 1),
                      "the quote that opens here closes only in line " + std::to_string(last_line),
                      "close it in its own line"};
  }

  std::string file_;
  Document* document_;
  int last_tab_line_ = 0;
};

}  // namespace

Document ParseDocument(std::string text, const std::string& file) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  Document document;
  document.source = SourceMap(std::move(text));
  Reader(file, &document).Run();
  return document;
}

}  // namespace kernel_evolve::graph
