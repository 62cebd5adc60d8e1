#include "core/expr/lexer.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace kernel_evolve::expr {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsName(char c) { return IsNameStart(c) || IsDigit(c); }

void AppendUtf8(uint32_t code, std::string* out) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80U) {
    put(code);
  } else if (code < 0x800U) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000U) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

class Lexer {
 public:
  Lexer(std::string_view text, std::vector<Finding>* findings) : text_(text), findings_(findings) {}

  std::vector<Token> Run() {
    while (!failed_) {
      SkipBlanks();
      if (at_ >= text_.size()) break;
      Next();
    }
    Token end;
    end.span = {text_.size(), text_.size()};
    tokens_.push_back(end);
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else if (c == '/' && Peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  void Fail(size_t begin, size_t end, std::string message, std::string hint = "") {
    findings_->push_back({"KE1201", {begin, end}, std::move(message), std::move(hint)});
    failed_ = true;
  }

  void Emit(TokenKind kind, size_t begin, Json value = {}) {
    Token token;
    token.kind = kind;
    token.span = {begin, at_};
    token.text = std::string(text_.substr(begin, at_ - begin));
    token.value = std::move(value);
    tokens_.push_back(std::move(token));
  }

  void Next() {
    const char c = Peek();
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return Number();
    if (c == '"' || c == '\'') return String(at_, false);
    if ((c == 'r' || c == 'R') && (Peek(1) == '"' || Peek(1) == '\'')) {
      const size_t begin = at_++;
      return String(begin, true);
    }
    if (IsNameStart(c)) {
      const size_t begin = at_;
      while (IsName(Peek())) ++at_;
      return Emit(TokenKind::kIdent, begin);
    }
    Punctuation();
  }

  void Punctuation() {
    static constexpr std::array<std::string_view, 6> kLong = {"&&", "||", "==", "!=", "<=", ">="};
    const size_t begin = at_;
    for (const std::string_view op : kLong) {
      if (text_.substr(at_, 2) == op) {
        at_ += 2;
        return Emit(TokenKind::kPunctuation, begin);
      }
    }
    const char c = Peek();
    static constexpr std::string_view kSingle = "!<>+-*/%?:.,()[]{}";
    if (kSingle.find(c) != std::string_view::npos) {
      ++at_;
      return Emit(TokenKind::kPunctuation, begin);
    }
    if (c == '=') return Fail(begin, begin + 1, "'=' is not an operator", "compare with '=='");
    if (c == '&') return Fail(begin, begin + 1, "'&' is not an operator", "write '&&'");
    if (c == '|') return Fail(begin, begin + 1, "'|' is not an operator", "write '||'");
    if (c == '$') {
      return Fail(begin, begin + 1, "'$' has no meaning inside an expression",
                  "write the name without ${ }");
    }
    size_t end = begin + 1;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80U) ++end;
    Fail(begin, end,
         "'" + std::string(text_.substr(begin, end - begin)) + "' has no meaning in an expression");
  }

  void Number() {
    const size_t begin = at_;
    if (Peek() == '0' && (Peek(1) == 'x' || Peek(1) == 'X')) return Hexadecimal();
    bool real = false;
    while (IsDigit(Peek())) ++at_;
    if (Peek() == '.' && IsDigit(Peek(1))) {
      real = true;
      ++at_;
      while (IsDigit(Peek())) ++at_;
    }
    if (Peek() == 'e' || Peek() == 'E') {
      const size_t sign = (Peek(1) == '+' || Peek(1) == '-') ? 2 : 1;
      if (IsDigit(Peek(sign))) {
        real = true;
        at_ += sign;
        while (IsDigit(Peek())) ++at_;
      }
    }
    if (IsName(Peek())) return BadSuffix(begin);
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (real) {
      double value = 0;
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (read.ec != std::errc() || !std::isfinite(value)) {
        return Fail(begin, at_, "the number " + std::string(digits) + " is out of range");
      }
      return Emit(TokenKind::kNumber, begin, Json(value));
    }
    Integer(begin, digits, 10);
  }

  void Hexadecimal() {
    const size_t begin = at_;
    at_ += 2;
    const size_t first = at_;
    while (std::string_view("0123456789abcdefABCDEF").find(Peek()) != std::string_view::npos &&
           Peek() != '\0') {
      ++at_;
    }
    if (first == at_ || IsName(Peek())) return BadSuffix(begin);
    Integer(begin, text_.substr(first, at_ - first), 16);
  }

  // A magnitude of 2^63 is kept for the parser, which allows it right after a minus sign only.
  void Integer(size_t begin, std::string_view digits, int base) {
    uint64_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const uint64_t limit = uint64_t{1} << 63U;
    if (read.ec != std::errc() || value > limit) {
      return Fail(begin, at_, "the integer is out of range (64 bits)");
    }
    Emit(TokenKind::kNumber, begin, value == limit ? Json() : Json(static_cast<int64_t>(value)));
  }

  void BadSuffix(size_t begin) {
    while (IsName(Peek())) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    const bool is_unsigned = word.back() == 'u' || word.back() == 'U';
    Fail(begin, at_, "'" + word + "' is not a number",
         is_unsigned ? "there are no unsigned integers; drop the 'u'" : "");
  }

  void String(size_t begin, bool raw) {
    const char quote = Peek();
    const bool triple = Peek(1) == quote && Peek(2) == quote;
    const std::string end(triple ? 3 : 1, quote);
    at_ += end.size();
    std::string value;
    while (true) {
      if (at_ >= text_.size() || (!triple && Peek() == '\n')) {
        return Fail(begin, begin + 1, "the string that starts here is never closed",
                    "close it with " + end);
      }
      if (text_.substr(at_, end.size()) == end) break;
      if (Peek() == '\\' && !raw) {
        if (!Escape(&value)) return;
      } else {
        value.push_back(text_[at_++]);
      }
    }
    at_ += end.size();
    Emit(TokenKind::kString, begin, Json(std::move(value)));
  }

  bool Escape(std::string* out) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"`?";
    static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"`?";
    const size_t begin = at_++;
    const char kind = Peek();
    const size_t simple = kind == '\0' ? std::string_view::npos : kNames.find(kind);
    if (simple != std::string_view::npos) {
      out->push_back(kValues[simple]);
      ++at_;
      return true;
    }
    if (kind == 'x' || kind == 'X') return CodePoint(begin, 1, 2, 16, out);
    if (kind == 'u') return CodePoint(begin, 1, 4, 16, out);
    if (kind == 'U') return CodePoint(begin, 1, 8, 16, out);
    if (kind >= '0' && kind <= '3') return CodePoint(begin, 0, 3, 8, out);
    Fail(begin, begin + 2, "an unknown escape in a string", "write '\\\\' for one backslash");
    return false;
  }

  bool CodePoint(size_t begin, size_t skip, size_t digits, int base, std::string* out) {
    at_ += skip;
    const std::string_view text = text_.substr(at_, digits);
    uint32_t code = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), code, base);
    const bool all = text.size() == digits && read.ptr == text.data() + text.size();
    const bool scalar = code != 0 && code <= 0x10FFFFU && !(code >= 0xD800U && code <= 0xDFFFU);
    if (!all || read.ec != std::errc() || !scalar) {
      Fail(begin, at_ + text.size(), "this escape names no character");
      return false;
    }
    at_ += digits;
    AppendUtf8(code, out);
    return true;
  }

  std::string_view text_;
  std::vector<Finding>* findings_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::vector<Token> Lex(std::string_view text, std::vector<Finding>* findings) {
  return Lexer(text, findings).Run();
}

}  // namespace kernel_evolve::expr
