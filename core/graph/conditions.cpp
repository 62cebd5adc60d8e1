#include "core/graph/conditions.hpp"

#include <string_view>

namespace kernel_evolve::graph {
namespace {

constexpr std::string_view kForbidden = "{}[],#?:";
constexpr std::string_view kForbiddenFirst = "!&*\"'";

// Where the author meant the condition to end: a comma or a brace outside brackets and quotes, or
// the end of the line.
size_t IntendedEnd(std::string_view text, bool flow) {
  int depth = 0;
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n' || c == '\r') return i;
    if (quote != '\0') {
      if (c == quote) quote = '\0';
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (flow && depth == 0 && (c == ',' || c == '}')) return i;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
  return text.size();
}

Diagnostic Unquoted(const SourceMap& source, size_t offset, const std::string& message,
                    std::string_view condition) {
  const bool has_double = condition.find('"') != std::string_view::npos;
  const bool has_single = condition.find('\'') != std::string_view::npos;
  std::string hint = "quote the whole condition";
  const bool leads = !condition.empty() && (condition[0] == '"' || condition[0] == '\'');
  if (condition.size() <= 80 && !leads && !(has_double && has_single)) {
    const std::string quote = has_double ? "'" : "\"";
    hint += ": when: " + quote + std::string(condition) + quote;
  }
  return {"KE1007", "", source.Range(offset, offset + 1), message, hint};
}

// A condition that begins with a quote must end with it.
std::optional<Diagnostic> CheckQuoted(const SourceMap& source, size_t begin, bool flow) {
  const std::string& text = source.text();
  const size_t end = EndOfQuoted(text, begin);
  if (end == std::string::npos) return std::nullopt;  // reported as such
  size_t after = end;
  while (after < text.size() && text[after] == ' ') ++after;
  const bool over = after >= text.size() || text[after] == '\n' || text[after] == '\r' ||
                    (text[after] == '#' && after > end) ||
                    (flow && (text[after] == ',' || text[after] == '}'));
  if (over) return std::nullopt;
  return Unquoted(source, begin, "the condition begins with a quote but goes on behind it",
                  std::string_view(text).substr(begin, 1));
}

}  // namespace

size_t EndOfQuoted(const std::string& text, size_t offset) {
  const char quote = text[offset];
  for (size_t i = offset + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 >= text.size() || text[i + 1] != '\'') return i + 1;
      ++i;
    }
  }
  return std::string::npos;
}

std::optional<Diagnostic> CheckUnquotedCondition(const SourceMap& source, size_t key_end, bool flow,
                                                 const Tree* value) {
  const std::string& text = source.text();
  size_t begin = text.find(':', key_end);
  if (begin == std::string::npos) return std::nullopt;
  ++begin;
  while (begin < text.size() && text[begin] == ' ') ++begin;
  const bool elsewhere = begin >= text.size() || text[begin] == '\n' || text[begin] == '\r';
  if (elsewhere) {
    if (value == nullptr || !value->is(Tree::Kind::kScalar)) return std::nullopt;
    begin = value->offset;
  }
  const char first = text[begin];
  if (first == '"' || first == '\'') return CheckQuoted(source, begin, flow);
  if (first == '|' || first == '>') return std::nullopt;
  const std::string_view rest = std::string_view(text).substr(begin);
  std::string_view condition = rest.substr(0, IntendedEnd(rest, flow));
  while (!condition.empty() && condition.back() == ' ') condition.remove_suffix(1);
  if (kForbiddenFirst.find(first) != std::string_view::npos) {
    return Unquoted(source, begin,
                    std::string("an unquoted condition cannot begin with '") + first + "'",
                    condition);
  }
  const auto cannot_contain = [](char c) {
    return std::string("an unquoted condition cannot contain '") + c + "'";
  };
  const size_t bad = condition.find_first_of(kForbidden);
  if (bad != std::string_view::npos) {
    return Unquoted(source, begin + bad, cannot_contain(condition[bad]), condition);
  }
  // Over several lines: what YAML put together.
  if (value != nullptr && value->is(Tree::Kind::kScalar) && !value->quoted()) {
    const size_t folded = value->text.find_first_of(kForbidden);
    if (folded != std::string::npos) {
      return Unquoted(source, begin, cannot_contain(value->text[folded]), value->text);
    }
  }
  return std::nullopt;
}

std::optional<Diagnostic> FindUnquotedCondition(const SourceMap& source, int line) {
  const std::string_view text = source.Line(line);
  for (size_t at = text.find("when:"); at != std::string_view::npos;
       at = text.find("when:", at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before != ' ' && before != '{' && before != ',' && before != '-') continue;
    const bool flow = text.substr(0, at).find('{') != std::string_view::npos;
    const size_t key_end = source.LineStart(line) + at + 4;
    if (std::optional<Diagnostic> wrong = CheckUnquotedCondition(source, key_end, flow, nullptr)) {
      return wrong;
    }
  }
  return std::nullopt;
}

}  // namespace kernel_evolve::graph
