#include "core/expr/parser.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/expr/lexer.hpp"

namespace kernel_evolve::expr {

std::string PathOf(const Expr& expr) {
  if (expr.op == Op::kIdent) return expr.name;
  if (expr.op != Op::kSelect && expr.op != Op::kHas) return "";
  const std::string base = PathOf(*expr.args[0]);
  return base.empty() ? "" : base + "." + expr.name;
}

namespace {

struct BinaryOp {
  std::string_view text;
  Op op;
  int level;  // binds tighter the higher it is
};

constexpr std::array<BinaryOp, 14> kBinary = {{
    {"||", Op::kOr, 1},
    {"&&", Op::kAnd, 2},
    {"==", Op::kEqual, 3},
    {"!=", Op::kNotEqual, 3},
    {"<", Op::kLess, 3},
    {"<=", Op::kLessEqual, 3},
    {">", Op::kGreater, 3},
    {">=", Op::kGreaterEqual, 3},
    {"in", Op::kIn, 3},
    {"+", Op::kAdd, 4},
    {"-", Op::kSubtract, 4},
    {"*", Op::kMultiply, 5},
    {"/", Op::kDivide, 5},
    {"%", Op::kModulo, 5},
}};

// Words that CEL keeps for itself.
constexpr std::array<std::string_view, 18> kReserved = {
    "as",  "break", "const",   "continue",  "else",   "for", "function", "if",    "import",
    "let", "loop",  "package", "namespace", "return", "var", "void",     "while", "in"};

bool IsReserved(std::string_view word) {
  for (const std::string_view reserved : kReserved) {
    if (word == reserved) return true;
  }
  return false;
}

bool IsMacro(std::string_view name) {
  return name == "all" || name == "exists" || name == "exists_one" || name == "filter" ||
         name == "map";
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::vector<Finding>* findings)
      : tokens_(std::move(tokens)), findings_(findings) {}

  ExprPtr Run() {
    if (Peek().kind == TokenKind::kEnd) return Fail("an expression is missing");
    ExprPtr root = Ternary();
    if (root != nullptr && Peek().kind != TokenKind::kEnd) return Unexpected();
    return root;
  }

 private:
  // Counts nesting for as long as it lives.
  class Nest {
   public:
    explicit Nest(int* depth) : depth_(depth) { ++*depth_; }
    ~Nest() { --*depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    int* depth_;
  };

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool Is(std::string_view text) const {
    return (Peek().kind == TokenKind::kPunctuation || Peek().kind == TokenKind::kIdent) &&
           Peek().text == text;
  }
  bool Take(std::string_view text) {
    if (!Is(text)) return false;
    ++at_;
    return true;
  }
  ExprPtr Fail(std::string message, std::string hint = "") {
    findings_->push_back({"KE1201", Peek().span, std::move(message), std::move(hint)});
    return nullptr;
  }
  ExprPtr TooDeep() {
    findings_->push_back({"KE1208", Peek().span, "the expression is nested too deeply", ""});
    return nullptr;
  }
  ExprPtr Unexpected(std::string_view wanted = "") {
    if (Is("and")) return Fail("'and' is not an operator", "write '&&'");
    if (Is("or")) return Fail("'or' is not an operator", "write '||'");
    std::string message = Peek().kind == TokenKind::kEnd
                              ? "the expression ends too early"
                              : "'" + Peek().text + "' is not expected here";
    return Fail(std::move(message), wanted.empty() ? "" : "expected " + std::string(wanted));
  }
  bool Expect(std::string_view text) {
    if (Take(text)) return true;
    Unexpected("'" + std::string(text) + "'");
    return false;
  }

  static ExprPtr Make(Op op, Span span, Span name_span) {
    auto made = std::make_unique<Expr>();
    made->op = op;
    made->span = span;
    made->name_span = name_span;
    return made;
  }
  Span Until(size_t begin) const { return {begin, tokens_[at_ - 1].span.end}; }

  ExprPtr Ternary() {
    const Nest nest(&depth_);
    if (depth_ > kMaxDepth) return TooDeep();
    ExprPtr condition = Binary(1);
    if (condition == nullptr || !Is("?")) return condition;
    const Span op = Peek().span;
    ++at_;
    ExprPtr yes = Binary(1);
    if (yes == nullptr || !Expect(":")) return nullptr;
    ExprPtr no = Ternary();
    if (no == nullptr) return nullptr;
    ExprPtr made = Make(Op::kTernary, Until(condition->span.begin), op);
    made->args.push_back(std::move(condition));
    made->args.push_back(std::move(yes));
    made->args.push_back(std::move(no));
    return made;
  }

  // Precedence climbing: takes every operator of `level` and up.
  ExprPtr Binary(int level) {
    ExprPtr left = Unary();
    while (left != nullptr) {
      const BinaryOp* found = nullptr;
      for (const BinaryOp& op : kBinary) {
        if (Is(op.text) && op.level >= level) found = &op;
      }
      if (found == nullptr) return left;
      const Span op = Peek().span;
      ++at_;
      ExprPtr right = Binary(found->level + 1);
      if (right == nullptr) return nullptr;
      ExprPtr made = Make(found->op, Until(left->span.begin), op);
      made->name = std::string(found->text);
      made->args.push_back(std::move(left));
      made->args.push_back(std::move(right));
      left = std::move(made);
    }
    return left;
  }

  ExprPtr Unary() {
    const Nest nest(&depth_);
    if (depth_ > kMaxDepth) return TooDeep();
    const Span op = Peek().span;
    if (Is("-") && Peek(1).kind == TokenKind::kNumber) {
      ++at_;
      return Postfix(Negative(op));
    }
    const bool negate = Is("-");
    if (!negate && !Is("!")) return Postfix(Primary());
    ++at_;
    ExprPtr operand = Unary();
    if (operand == nullptr) return nullptr;
    ExprPtr made = Make(negate ? Op::kNegate : Op::kNot, Until(op.begin), op);
    made->name = negate ? "-" : "!";
    made->args.push_back(std::move(operand));
    return made;
  }

  ExprPtr Negative(Span sign) {
    const Token& token = tokens_[at_++];
    ExprPtr made = Make(Op::kLiteral, Until(sign.begin), token.span);
    if (token.value.is_null()) {
      made->literal = Json(std::numeric_limits<int64_t>::min());
    } else if (token.value.is_integer()) {
      made->literal = Json(-token.value.integer());
    } else {
      made->literal = Json(-token.value.number());
    }
    return made;
  }

  ExprPtr Primary() {
    const Token& token = Peek();
    if (token.kind == TokenKind::kNumber || token.kind == TokenKind::kString) {
      if (token.value.is_null()) return Fail("the integer is out of range (64 bits)");
      ++at_;
      ExprPtr made = Make(Op::kLiteral, token.span, token.span);
      made->literal = token.value;
      return made;
    }
    if (token.kind == TokenKind::kIdent) return Name();
    if (Take("(")) {
      ExprPtr inside = Ternary();
      if (inside == nullptr || !Expect(")")) return nullptr;
      inside->span = Until(token.span.begin);
      return inside;
    }
    if (Is("[")) return ListLiteral();
    if (Is("{")) return MapLiteral();
    return Unexpected("a value");
  }

  ExprPtr Name() {
    const Token token = Peek();
    if (token.text == "true" || token.text == "false" || token.text == "null") {
      ++at_;
      ExprPtr made = Make(Op::kLiteral, token.span, token.span);
      if (token.text != "null") made->literal = Json(token.text == "true");
      return made;
    }
    if (token.text == "not") return Fail("'not' is not an operator", "write '!'");
    if (IsReserved(token.text)) return Fail("'" + token.text + "' is a reserved word");
    ++at_;
    if (Is("(")) {
      if (token.text == "has") return Has(token);
      ExprPtr made = Make(Op::kCall, token.span, token.span);
      made->name = token.text;
      if (!Arguments(made.get())) return nullptr;
      made->span = Until(token.span.begin);
      return made;
    }
    ExprPtr made = Make(Op::kIdent, token.span, token.span);
    made->name = token.text;
    return made;
  }

  ExprPtr Has(const Token& name) {
    ++at_;
    ExprPtr inside = Ternary();
    if (inside == nullptr || !Expect(")")) return nullptr;
    if (inside->op != Op::kSelect) {
      findings_->push_back({"KE1201", inside->span, "has() needs a member access such as a.b", ""});
      return nullptr;
    }
    inside->op = Op::kHas;
    inside->span = Until(name.span.begin);
    return inside;
  }

  // `(a, b)` onto the arguments of `call`.
  bool Arguments(Expr* call) {
    if (!Expect("(")) return false;
    if (Take(")")) return true;
    do {
      ExprPtr argument = Ternary();
      if (argument == nullptr) return false;
      call->args.push_back(std::move(argument));
    } while (Take(","));
    return Expect(")");
  }

  ExprPtr Postfix(ExprPtr base) {
    while (base != nullptr) {
      if (!Is(".") && !Is("[")) return base;
      base = Take(".") ? Member(std::move(base)) : Index(std::move(base));
    }
    return base;
  }

  ExprPtr Member(ExprPtr base) {
    const bool optional = Take("?");
    if (Peek().kind != TokenKind::kIdent) return Unexpected("a member's name");
    const Token name = tokens_[at_++];
    const bool call = Is("(") && !optional;
    if (call && IsMacro(name.text)) return Macro(std::move(base), name);
    const Op op = call ? Op::kMethod : optional ? Op::kOptSelect : Op::kSelect;
    const size_t begin = base->span.begin;
    ExprPtr made = Make(op, {}, name.span);
    made->name = name.text;
    made->args.push_back(std::move(base));
    if (call && !Arguments(made.get())) return nullptr;
    made->span = Until(begin);
    return made;
  }

  ExprPtr Macro(ExprPtr base, const Token& name) {
    const size_t begin = base->span.begin;
    ExprPtr made = Make(Op::kMacro, {}, name.span);
    made->name = name.text;
    made->args.push_back(std::move(base));
    ++at_;
    if (Peek().kind != TokenKind::kIdent || Peek(1).text != ",") {
      return Unexpected("the name of a variable, then ','");
    }
    if (IsReserved(Peek().text)) return Fail("'" + Peek().text + "' is a reserved word");
    made->variable = tokens_[at_].text;
    at_ += 2;
    do {
      ExprPtr body = Ternary();
      if (body == nullptr) return nullptr;
      made->args.push_back(std::move(body));
    } while (Take(","));
    if (!Expect(")")) return nullptr;
    const size_t most = name.text == "map" ? 3 : 2;
    made->span = Until(begin);
    if (made->args.size() > most) {
      findings_->push_back({"KE1201", made->span, name.text + "() has too many arguments", ""});
      return nullptr;
    }
    return made;
  }

  ExprPtr Index(ExprPtr base) {
    const Span bracket = Peek().span;
    ++at_;
    const bool optional = Take("?");
    ExprPtr index = Ternary();
    if (index == nullptr || !Expect("]")) return nullptr;
    ExprPtr made = Make(optional ? Op::kOptIndex : Op::kIndex, Until(base->span.begin), bracket);
    made->args.push_back(std::move(base));
    made->args.push_back(std::move(index));
    return made;
  }

  ExprPtr ListLiteral() {
    const Span open = Peek().span;
    ++at_;
    ExprPtr made = Make(Op::kList, {}, open);
    while (!Take("]")) {
      ExprPtr item = Ternary();
      if (item == nullptr) return nullptr;
      made->args.push_back(std::move(item));
      if (Take(",")) continue;
      if (!Expect("]")) return nullptr;
      break;
    }
    made->span = Until(open.begin);
    return made;
  }

  ExprPtr MapLiteral() {
    const Span open = Peek().span;
    ++at_;
    ExprPtr made = Make(Op::kMap, {}, open);
    while (!Take("}")) {
      ExprPtr key = Ternary();
      if (key == nullptr || !Expect(":")) return nullptr;
      ExprPtr value = Ternary();
      if (value == nullptr) return nullptr;
      made->args.push_back(std::move(key));
      made->args.push_back(std::move(value));
      if (Take(",")) continue;
      if (!Expect("}")) return nullptr;
      break;
    }
    made->span = Until(open.begin);
    return made;
  }

  std::vector<Token> tokens_;
  std::vector<Finding>* findings_;
  size_t at_ = 0;
  int depth_ = 0;
};

// A chain such as a + b + c leans left: the tree is as deep as the chain is long, and every later
// pass walks it recursively.
bool DeeperThan(const Expr& root, int limit) {
  std::vector<std::pair<const Expr*, int>> open = {{&root, 1}};
  while (!open.empty()) {
    const auto [expr, depth] = open.back();
    open.pop_back();
    if (depth > limit) return true;
    for (const ExprPtr& arg : expr->args) open.emplace_back(arg.get(), depth + 1);
  }
  return false;
}

}  // namespace

ExprPtr Parse(std::string_view text, std::vector<Finding>* findings) {
  if (text.size() > kMaxTextBytes) {
    findings->push_back({"KE1208", {0, 1}, "the expression is longer than 8 KiB", ""});
    return nullptr;
  }
  std::vector<Token> tokens = Lex(text, findings);
  if (!findings->empty()) return nullptr;
  ExprPtr root = Parser(std::move(tokens), findings).Run();
  if (root != nullptr && DeeperThan(*root, kMaxTreeDepth)) {
    findings->push_back({"KE1208", root->span, "the expression has too many terms", ""});
    return nullptr;
  }
  return root;
}

}  // namespace kernel_evolve::expr
