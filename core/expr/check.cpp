#include "core/expr/check.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/text.hpp"
#include "core/expr/functions.hpp"

namespace kernel_evolve::expr {
namespace {

// Members known to be there: what has() and hasValue() established on the way here.
using Facts = std::set<std::string>;

const Type& ItemOf(const Type& type) {
  static const Type dyn = DynType();
  return type.item == nullptr ? dyn : *type.item;
}

template <typename Map>
std::string DidYouMean(std::string_view word, const Map& known) {
  std::vector<std::string> names;
  for (const auto& entry : known) names.push_back(entry.first);
  const std::optional<std::string> near = word.size() > 64 ? std::nullopt : Nearest(word, names);
  if (near) return "did you mean '" + *near + "'?";
  if (names.empty()) return "there are none";
  if (names.size() > 12) return "";
  return "known: " + Join(names, ", ");
}

char KindLetter(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return 'b';
    case Kind::kInt:
      return 'i';
    case Kind::kDouble:
      return 'd';
    case Kind::kString:
      return 's';
    case Kind::kList:
      return 'l';
    case Kind::kMap:
      return 'm';
    case Kind::kOptional:
      return 'o';
    case Kind::kNull:
      return 'n';
    case Kind::kDyn:
      return '*';
  }
  return '*';
}

bool IsArithmetic(Op op) {
  return op == Op::kAdd || op == Op::kSubtract || op == Op::kMultiply || op == Op::kDivide ||
         op == Op::kModulo;
}

class Checker {
 public:
  Checker(const TypeEnv& env, std::vector<Finding>* findings) : env_(env), findings_(findings) {}

  Type Visit(Expr* expr) {
    expr->type = TypeOf(expr);
    return expr->type;
  }

 private:
  void Report(const char* code, Span span, std::string message, std::string hint = "") {
    findings_->push_back({code, span, std::move(message), std::move(hint)});
  }

  Type TypeOf(Expr* expr) {
    switch (expr->op) {
      case Op::kLiteral:
        return LiteralType(expr->literal);
      case Op::kIdent:
        return Ident(expr);
      case Op::kSelect:
      case Op::kOptSelect:
      case Op::kHas:
        return Select(expr);
      case Op::kIndex:
      case Op::kOptIndex:
        return Index(expr);
      case Op::kNot:
        Condition(expr->args[0].get(), "'!'");
        return BoolType();
      case Op::kNegate:
        return Negate(expr);
      case Op::kAnd:
      case Op::kOr:
        return Logic(expr);
      case Op::kTernary:
        return Ternary(expr);
      case Op::kList:
        return List(expr);
      case Op::kMap:
        return Map(expr);
      case Op::kCall:
      case Op::kMethod:
        return Call(expr);
      case Op::kMacro:
        return Macro(expr);
      default:
        return IsArithmetic(expr->op) ? Arithmetic(expr) : Comparison(expr);
    }
  }

  static Type LiteralType(const Json& literal) {
    if (literal.is_bool()) return BoolType();
    if (literal.is_integer()) return IntType();
    if (literal.is_double()) return DoubleType();
    if (literal.is_string()) return StringType();
    Type null;
    null.kind = Kind::kNull;
    return null;
  }

  Type Ident(Expr* expr) {
    for (size_t i = scope_.size(); i-- > 0;) {
      if (scope_[i].first != expr->name) continue;
      expr->slot = static_cast<int>(i);
      return scope_[i].second;
    }
    const auto root = env_.find(expr->name);
    if (root != env_.end()) return root->second;
    Report("KE1202", expr->name_span, "there is no name '" + expr->name + "' here",
           DidYouMean(expr->name, env_));
    return DynType();
  }

  // What `base.name` is, before it is wrapped in an optional.
  Type MemberType(Expr* expr, const Type& base, bool plain) {
    if (base.is(Kind::kDyn)) return DynType();
    if (!base.is(Kind::kMap)) {
      Report("KE1203", expr->name_span,
             "a value of type " + TypeName(base) + " has no member '" + expr->name + "'");
      return DynType();
    }
    if (base.record == nullptr) return ItemOf(base);
    const auto member = base.record->members.find(expr->name);
    if (member == base.record->members.end()) {
      Report("KE1203", expr->name_span,
             "no " + base.record->noun + " is called '" + expr->name + "'",
             DidYouMean(expr->name, base.record->members));
      return DynType();
    }
    if (plain && member->second.may_be_absent && facts_.count(PathOf(*expr)) == 0) {
      Absent(*expr);
    }
    return member->second.type;
  }

  void Absent(const Expr& expr) {
    const std::string path = PathOf(expr);
    const size_t dot = path.rfind('.');
    const std::string remedy = path.empty() ? "write .?" + expr.name + ".orValue(...)"
                                            : "write " + path.substr(0, dot) + ".?" + expr.name +
                                                  ".orValue(...), or test has(" + path + ") first";
    Report("KE1207", expr.name_span,
           "'" + (path.empty() ? expr.name : path) + "' may be absent here", remedy);
  }

  Type Select(Expr* expr) {
    Type base = Visit(expr->args[0].get());
    const bool chained = base.is(Kind::kOptional);
    if (chained) base = ItemOf(base);
    const Type member = MemberType(expr, base, expr->op == Op::kSelect && !chained);
    if (expr->op == Op::kHas) return BoolType();
    if (expr->op == Op::kOptSelect || chained) return OptionalOf(member);
    return member;
  }

  Type Index(Expr* expr) {
    Type base = Visit(expr->args[0].get());
    const bool chained = base.is(Kind::kOptional);
    if (chained) base = ItemOf(base);
    const Type index = Visit(expr->args[1].get());
    Type item = DynType();
    if (base.is(Kind::kList) || base.is(Kind::kMap)) {
      const Kind wanted = base.is(Kind::kList) ? Kind::kInt : Kind::kString;
      if (!index.is(wanted) && !index.is(Kind::kDyn)) {
        Report("KE1205", expr->args[1]->span,
               "a " + TypeName(base) + " is indexed by " +
                   (wanted == Kind::kInt ? "an int" : "a string") + ", not by a value of type " +
                   TypeName(index));
      }
      if (base.record == nullptr) item = ItemOf(base);
    } else if (!base.is(Kind::kDyn)) {
      Report("KE1205", expr->span, "a value of type " + TypeName(base) + " cannot be indexed");
    }
    return expr->op == Op::kOptIndex || chained ? OptionalOf(item) : item;
  }

  void Condition(Expr* expr, const std::string& of) {
    const Type type = Visit(expr);
    if (type.is(Kind::kBool) || type.is(Kind::kDyn)) return;
    Report("KE1205", expr->span, of + " needs a bool, this is of type " + TypeName(type),
           type.is(Kind::kOptional) ? "add .hasValue() or .orValue(false)" : "");
  }

  Type Negate(Expr* expr) {
    const Type type = Visit(expr->args[0].get());
    if (!type.is_number() && !type.is(Kind::kDyn)) {
      Report("KE1205", expr->span, "'-' needs a number, this is of type " + TypeName(type));
      return DynType();
    }
    return type;
  }

  // What is known to be there once `expr` turned out to be `outcome`.
  static void Learn(const Expr& expr, bool outcome, Facts* facts) {
    if (expr.op == Op::kNot) return Learn(*expr.args[0], !outcome, facts);
    if (expr.op == (outcome ? Op::kAnd : Op::kOr)) {
      Learn(*expr.args[0], outcome, facts);
      Learn(*expr.args[1], outcome, facts);
    }
    if (!outcome) return;
    if (expr.op == Op::kHas && !PathOf(expr).empty()) facts->insert(PathOf(expr));
    if (expr.op == Op::kMethod && expr.name == "hasValue") {
      const Expr& optional = *expr.args[0];
      if (optional.op != Op::kOptSelect) return;
      const std::string base = PathOf(*optional.args[0]);
      if (!base.empty()) facts->insert(base + "." + optional.name);
    }
  }

  Type Logic(Expr* expr) {
    const std::string of = "'" + expr->name + "'";
    Condition(expr->args[0].get(), of);
    const Facts before = facts_;
    Learn(*expr->args[0], expr->op == Op::kAnd, &facts_);
    Condition(expr->args[1].get(), of);
    facts_ = before;
    return BoolType();
  }

  Type Ternary(Expr* expr) {
    Condition(expr->args[0].get(), "'?'");
    const Facts before = facts_;
    Learn(*expr->args[0], true, &facts_);
    const Type yes = Visit(expr->args[1].get());
    facts_ = before;
    Learn(*expr->args[0], false, &facts_);
    const Type no = Visit(expr->args[2].get());
    facts_ = before;
    if (yes.is(no.kind)) return yes.record == no.record ? yes : DynAs(yes);
    if (yes.is(Kind::kDyn) || no.is(Kind::kDyn)) return DynType();
    if (yes.is(Kind::kNull) || no.is(Kind::kNull)) return DynType();
    Report(yes.is_number() && no.is_number() ? "KE1206" : "KE1205", expr->name_span,
           "the two sides of ':' are of types " + TypeName(yes) + " and " + TypeName(no),
           yes.is_number() && no.is_number() ? "make both double with double()" : "");
    return DynType();
  }

  // The same kind with nothing known about members or items.
  static Type DynAs(const Type& type) {
    Type open = type;
    open.record = nullptr;
    open.item = nullptr;
    return open;
  }

  Type Arithmetic(Expr* expr) {
    const Type left = Visit(expr->args[0].get());
    const Type right = Visit(expr->args[1].get());
    const bool add = expr->op == Op::kAdd;
    const auto fits = [&](const Type& type) {
      if (type.is(Kind::kDyn) || type.is(Kind::kInt)) return true;
      if (type.is(Kind::kDouble)) return expr->op != Op::kModulo;
      return add && (type.is(Kind::kString) || type.is(Kind::kList));
    };
    if (left.is_number() && right.is_number() && !left.is(right.kind)) {
      Report("KE1206", expr->name_span,
             "'" + expr->name + "' between " + TypeName(left) + " and " + TypeName(right),
             "convert the int with double(" + TextHint(*expr, left) + ")");
      return DynType();
    }
    const bool same = left.is(right.kind) || left.is(Kind::kDyn) || right.is(Kind::kDyn);
    if (!same || !fits(left) || !fits(right)) {
      Report("KE1205", expr->name_span,
             "'" + expr->name + "' does not work between " + TypeName(left) + " and " +
                 TypeName(right),
             add && (left.is(Kind::kString) || right.is(Kind::kString))
                 ? "convert with string()"
                 : OptionalHint(left, right));
      return DynType();
    }
    if (left.is(Kind::kDyn)) return right.is(Kind::kList) ? DynAs(right) : right;
    return right.is(Kind::kDyn) && left.is(Kind::kList) ? DynAs(left) : left;
  }

  static std::string TextHint(const Expr& expr, const Type& left) {
    const std::string path = PathOf(*expr.args[left.is(Kind::kInt) ? 0 : 1]);
    return path.empty() ? "..." : path;
  }

  static std::string OptionalHint(const Type& left, const Type& right) {
    const bool optional = left.is(Kind::kOptional) || right.is(Kind::kOptional);
    return optional ? "add .orValue(...) to the optional" : "";
  }

  Type Comparison(Expr* expr) {
    const Type left = Visit(expr->args[0].get());
    const Type right = Visit(expr->args[1].get());
    const bool dyn = left.is(Kind::kDyn) || right.is(Kind::kDyn);
    bool fits = left.is(right.kind) || (left.is_number() && right.is_number());
    if (expr->op == Op::kIn) {
      fits = right.is(Kind::kList) || right.is(Kind::kDyn) ||
             (right.is(Kind::kMap) && (dyn || left.is(Kind::kString)));
      if (left.is(Kind::kOptional)) fits = false;
    } else if (expr->op == Op::kEqual || expr->op == Op::kNotEqual) {
      const bool optional = left.is(Kind::kOptional) != right.is(Kind::kOptional);
      fits = !optional && (fits || dyn || left.is(Kind::kNull) || right.is(Kind::kNull));
    } else {
      const auto ordered = [](const Type& type) {
        return type.is_number() || type.is(Kind::kString) || type.is(Kind::kBool) ||
               type.is(Kind::kDyn);
      };
      fits = (fits || dyn) && ordered(left) && ordered(right);
    }
    if (!fits) {
      Report("KE1205", expr->name_span,
             "'" + expr->name + "' does not work between " + TypeName(left) + " and " +
                 TypeName(right),
             OptionalHint(left, right));
    }
    return BoolType();
  }

  Type List(Expr* expr) {
    std::optional<Type> item;
    for (const ExprPtr& arg : expr->args) {
      const Type type = Visit(arg.get());
      NoOptional(*arg);
      if (!item) item = type;
      if (!item->is(type.kind) || item->record != type.record) item = DynType();
    }
    return ListOf(item.value_or(DynType()));
  }

  Type Map(Expr* expr) {
    std::set<std::string> keys;
    for (size_t i = 0; i + 1 < expr->args.size(); i += 2) {
      const Expr& key = *expr->args[i];
      const Type type = Visit(expr->args[i].get());
      if (!type.is(Kind::kString) && !type.is(Kind::kDyn)) {
        Report("KE1205", key.span, "a map's key must be a string, not " + TypeName(type));
      }
      if (key.literal.is_string() && !keys.insert(key.literal.string()).second) {
        Report("KE1205", key.span, "the key '" + key.literal.string() + "' is there twice");
      }
      Visit(expr->args[i + 1].get());
      NoOptional(*expr->args[i + 1]);
    }
    return MapOf(DynType());
  }

  void NoOptional(const Expr& expr) {
    if (!expr.type.is(Kind::kOptional)) return;
    Report("KE1205", expr.span, "an optional cannot be stored", "add .orValue(...)");
  }

  Type Call(Expr* expr) {
    if (expr->op == Op::kMethod && expr->args[0]->op == Op::kIdent &&
        expr->args[0]->name == "optional" && env_.count("optional") == 0) {
      expr->op = Op::kCall;
      expr->name = "optional." + expr->name;
      expr->args.erase(expr->args.begin());
    }
    const bool method = expr->op == Op::kMethod;
    std::vector<Type> types;
    for (const ExprPtr& arg : expr->args) types.push_back(Visit(arg.get()));
    const Function* function = nullptr;
    std::map<std::string, int> names;
    for (const Function& known : Functions()) {
      if (known.method == method) names[std::string(known.name)] = 1;
      if (known.name == expr->name && known.method == method) function = &known;
    }
    if (function == nullptr) {
      Report("KE1204", expr->name_span, "there is no function '" + expr->name + "'",
             DidYouMean(expr->name, names));
      return DynType();
    }
    const size_t receiver = method ? 1 : 0;
    if (types.size() != function->takes.size()) {
      Report("KE1210", expr->span,
             expr->name + "() takes " + std::to_string(function->takes.size() - receiver) +
                 " argument(s), not " + std::to_string(types.size() - receiver));
      return DynType();
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string_view takes = function->takes[i];
      const bool strict_optional = takes == "o" && types[i].is(Kind::kDyn);
      const bool any = takes == "*" && !types[i].is(Kind::kOptional);
      const bool dyn = types[i].is(Kind::kDyn) && !strict_optional;
      if (any || dyn || takes.find(KindLetter(types[i].kind)) != std::string_view::npos) continue;
      Report("KE1210", expr->args[i]->span,
             expr->name + "() does not take a value of type " + TypeName(types[i]),
             strict_optional ? "an optional comes from .?member or [?index]"
                             : OptionalHint(types[i], types[i]));
      return DynType();
    }
    return CallType(*expr, *function, types);
  }

  Type CallType(const Expr& expr, const Function& function, const std::vector<Type>& types) {
    if (expr.name == "value") return ItemOf(types[0]);
    if (expr.name == "optional.of") return OptionalOf(types[0]);
    if (expr.name == "optional.none") return OptionalOf(DynType());
    if (expr.name == "or") {
      return ItemOf(types[0]).is(Kind::kDyn) ? types[1] : types[0];
    }
    if (expr.name == "orValue") return OrValue(expr, ItemOf(types[0]), types[1]);
    Type type;
    type.kind = function.gives;
    return type;
  }

  Type OrValue(const Expr& expr, const Type& content, const Type& fallback) {
    if (content.is(fallback.kind)) {
      return content.record == fallback.record ? content : DynAs(content);
    }
    if (content.is(Kind::kDyn) || fallback.is(Kind::kDyn)) return DynType();
    if (content.is(Kind::kDouble) && fallback.is(Kind::kInt)) {
      Report("KE1206", expr.args[1]->span, "the value is a double, the fallback an int",
             "write it with a point, such as 0.0");
      return DynType();
    }
    Report("KE1205", expr.args[1]->span,
           "the value is of type " + TypeName(content) + ", the fallback of type " +
               TypeName(fallback));
    return DynType();
  }

  Type Macro(Expr* expr) {
    const Type range = Visit(expr->args[0].get());
    Type item = DynType();
    if (range.is(Kind::kList)) {
      item = ItemOf(range);
    } else if (range.is(Kind::kMap)) {
      item = StringType();
    } else if (!range.is(Kind::kDyn)) {
      Report("KE1210", expr->args[0]->span,
             expr->name + "() needs a list or a map, not a value of type " + TypeName(range),
             OptionalHint(range, range));
    }
    const auto same_name = [expr](const auto& entry) { return entry.first == expr->variable; };
    if (env_.count(expr->variable) > 0 || std::any_of(scope_.begin(), scope_.end(), same_name)) {
      Report("KE1202", expr->name_span, "the variable '" + expr->variable + "' hides another name",
             "give it a name of its own");
    }
    expr->slot = static_cast<int>(scope_.size());
    scope_.emplace_back(expr->variable, item);
    const bool maps = expr->name == "map";
    const bool filters = !maps || expr->args.size() == 3;
    if (filters) Condition(expr->args[1].get(), expr->name + "()");
    Type made = BoolType();
    if (maps) {
      const Expr& body = *expr->args.back();
      made = ListOf(Visit(expr->args.back().get()));
      NoOptional(body);
    } else if (expr->name == "filter") {
      made = ListOf(item);
    }
    scope_.pop_back();
    return made;
  }

  const TypeEnv& env_;
  std::vector<Finding>* findings_;
  std::vector<std::pair<std::string, Type>> scope_;
  Facts facts_;
};

}  // namespace

void Check(Expr* root, const TypeEnv& env, std::vector<Finding>* findings) {
  Checker(env, findings).Visit(root);
}

}  // namespace kernel_evolve::expr
