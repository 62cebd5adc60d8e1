#include "core/graph/fields.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/base/text.hpp"

namespace kernel_evolve::graph {
namespace {

// Nobody reads more; a hostile document could cause a million.
constexpr size_t kMaxDiagnostics = 500;

}  // namespace

std::string Quoted(std::string_view word) {
  const bool cut = word.size() > 60;
  std::string shown(word.substr(0, 60));
  // Not half a character, and nothing that would move a terminal's cursor.
  while (cut && !shown.empty() && !IsUtf8Text(shown)) shown.pop_back();
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return "'" + shown + (cut ? "...'" : "'");
}

std::string Suggest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() <= 64) {
    if (const std::optional<std::string> near = Nearest(word, known)) {
      return "did you mean '" + *near + "'?";
    }
  }
  if (known.empty() || known.size() > 12) return "";
  return "known: " + Join(known, ", ");
}

void Reporter::At(const SourceRange& range, std::string code, std::string message,
                  std::string hint) {
  if (out_->size() >= kMaxDiagnostics) return;
  Diagnostic diagnostic{std::move(code), file_, range, std::move(message), std::move(hint)};
  for (const Diagnostic& other : *out_) {
    if (other.code == diagnostic.code && other.range.begin == diagnostic.range.begin &&
        other.message == diagnostic.message) {
      return;
    }
  }
  out_->push_back(std::move(diagnostic));
}

Fields Fields::ReadOpen(const Tree& tree, const std::string& what, Reporter* reporter) {
  Fields fields;
  fields.what_ = what;
  if (tree.broken) return fields;
  if (!tree.is(Tree::Kind::kMapping) && !tree.is(Tree::Kind::kNull)) {
    reporter->At(tree, "KE1104", what + " must be a mapping (key: value)");
    return fields;
  }
  fields.tree_ = &tree;
  return fields;
}

Fields Fields::Read(const Tree& tree, const std::string& what,
                    const std::vector<std::string>& known, Reporter* reporter) {
  Fields fields = ReadOpen(tree, what, reporter);
  if (!fields.ok()) return fields;
  for (const Member* member : fields.All()) {
    bool found = false;
    for (const std::string& key : known) found = found || key == member->key.text;
    if (found) continue;
    reporter->At(member->key, "KE1101", what + " has no key " + Quoted(member->key.text),
                 Suggest(member->key.text, known));
  }
  return fields;
}

const Member* Fields::FindMember(std::string_view key) const {
  if (tree_ == nullptr) return nullptr;
  for (const Member& member : tree_->members) {
    if (member.key.text == key) return &member;
  }
  return nullptr;
}

const Tree* Fields::Find(std::string_view key) const {
  const Member* member = FindMember(key);
  return member == nullptr ? nullptr : &member->value;
}

const Tree* Fields::Require(std::string_view key, const SourceRange& range,
                            Reporter* reporter) const {
  const Tree* found = Find(key);
  if (found == nullptr && ok()) {
    reporter->At(range, "KE1102", what_ + " needs the key '" + std::string(key) + "'");
  }
  return found;
}

std::vector<const Member*> Fields::All() const {
  std::vector<const Member*> all;
  if (tree_ == nullptr) return all;
  for (const Member& member : tree_->members) {
    if (!member.key.text.starts_with("x-")) all.push_back(&member);
  }
  return all;
}

std::optional<std::string> ReadText(const Tree& tree, const std::string& what, Reporter* reporter) {
  if (tree.broken) return std::nullopt;
  if (tree.is(Tree::Kind::kScalar)) return tree.text;
  const bool empty = tree.is(Tree::Kind::kNull);
  reporter->At(tree, "KE1104", what + (empty ? " is empty" : " must be a text"),
               empty ? "write it, or quote the word null" : "");
  return std::nullopt;
}

std::optional<std::string> ReadName(const Tree& tree, const std::string& what, bool dashes,
                                    Reporter* reporter) {
  std::optional<std::string> text = ReadText(tree, what, reporter);
  if (!text) return std::nullopt;
  static const std::vector<std::string> kTaken = {
      "as",       "break",   "const",  "continue", "else", "false", "for",
      "function", "if",      "import", "in",       "let",  "loop",  "namespace",
      "null",     "package", "return", "true",     "var",  "void",  "while"};
  for (const std::string& word : kTaken) {
    if (word != *text) continue;
    reporter->At(tree, "KE1106", Quoted(*text) + " is a reserved word of expressions",
                 "choose another name");
    return std::nullopt;
  }
  bool fine = !text->empty() && text->size() <= 64;
  for (size_t i = 0; i < text->size(); ++i) {
    const char c = (*text)[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool later = (c >= '0' && c <= '9') || (dashes && c == '-');
    fine = fine && (letter || (i > 0 && later));
  }
  if (fine) return text;
  reporter->At(tree, "KE1106", Quoted(*text) + " cannot be the name of " + what,
               dashes ? "use letters, digits, '_' and '-', beginning with a letter"
                      : "use letters, digits and '_', beginning with a letter");
  return std::nullopt;
}

std::optional<Json> ReadPlainScalar(const std::string& text) {
  if (text == "true" || text == "false") return Json(text == "true");
  if (text.empty() || text.size() > 64) return std::nullopt;
  const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  if (text.find_first_not_of("+-.0123456789eE") != std::string::npos) return std::nullopt;
  if (text.find_first_of("0123456789") == std::string::npos) return std::nullopt;
  int64_t integer = 0;
  const auto whole = std::from_chars(begin, end, integer);
  if (whole.ec == std::errc() && whole.ptr == end) return Json(integer);
  double number = 0;
  const auto real = std::from_chars(begin, end, number);
  if (real.ec == std::errc() && real.ptr == end && std::isfinite(number)) return Json(number);
  return std::nullopt;
}

Json ReadUntyped(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::kNull:
      return {};
    case Tree::Kind::kScalar: {
      if (tree.quoted()) return Json(tree.text);
      const std::optional<Json> plain = ReadPlainScalar(tree.text);
      return plain ? *plain : Json(tree.text);
    }
    case Tree::Kind::kSequence: {
      Json::Array items;
      for (const Tree& item : tree.items) items.push_back(ReadUntyped(item));
      return Json(std::move(items));
    }
    case Tree::Kind::kMapping: {
      Json made = Json::Obj();
      for (const Member& member : tree.members) made[member.key.text] = ReadUntyped(member.value);
      return made;
    }
  }
  return {};
}

std::optional<Json> ReadValue(const Tree& tree, ValueType type, const std::string& what,
                              Reporter* reporter) {
  if (tree.broken) return std::nullopt;
  const std::string name = ValueTypeName(type);
  if (tree.is(Tree::Kind::kNull)) {
    reporter->At(tree, "KE1107", what + " is empty", "write a value, or quote the word null");
    return std::nullopt;
  }
  if (!tree.is(Tree::Kind::kScalar)) {
    Json value = ReadUntyped(tree);
    const Status fits = CheckValue(type, value);
    if (fits.ok()) return value;
    reporter->At(tree, "KE1107", what + ": " + fits.error().message);
    return std::nullopt;
  }
  const bool needs_plain =
      type == ValueType::kBool || type == ValueType::kInteger || type == ValueType::kNumber;
  Result<Json> value = ParseValue(type, tree.text);
  if (value.ok() && !(needs_plain && tree.quoted())) return std::move(*value);
  const bool quotes = value.ok();
  reporter->At(
      tree, "KE1107",
      what + ": " + (quotes ? "a quoted text is not of type " + name : value.error().message),
      quotes ? "remove the quotes" : "");
  return std::nullopt;
}

}  // namespace kernel_evolve::graph
