// Text to tokens. Internal to expr/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/expr/ast.hpp"

namespace kernel_evolve::expr {

enum class TokenKind { kEnd, kIdent, kNumber, kString, kPunctuation };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  Span span;
  std::string text;  // the name or the punctuation as written
  Json value;        // of a number or string
};

// Always ends with a kEnd token. On an error the finding is appended and lexing stops there.
std::vector<Token> Lex(std::string_view text, std::vector<Finding>* findings);

}  // namespace kernel_evolve::expr
