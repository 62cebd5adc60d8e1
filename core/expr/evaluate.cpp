#include "core/expr/evaluate.hpp"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/text.hpp"
#include "core/expr/functions.hpp"

namespace kernel_evolve::expr {
namespace {

// A value that is borrowed from the roots where it can be: state holds whole source files.
class Value {
 public:
  Value(Json owned) : owned_(std::move(owned)) {}  // NOLINT(google-explicit-constructor)
  explicit Value(const Json* borrowed) : borrowed_(borrowed) {}
  static Value None() {
    Value value{Json()};
    value.optional_ = true;
    value.present_ = false;
    return value;
  }
  Value Some() && {
    optional_ = true;
    return std::move(*this);
  }
  Value Plain() && {
    optional_ = false;
    return std::move(*this);
  }

  const Json& get() const { return borrowed_ != nullptr ? *borrowed_ : owned_; }
  Json Take() && { return borrowed_ != nullptr ? *borrowed_ : std::move(owned_); }
  bool borrowed() const { return borrowed_ != nullptr; }
  bool optional() const { return optional_; }
  bool present() const { return present_; }

 private:
  const Json* borrowed_ = nullptr;
  Json owned_;
  bool optional_ = false;
  bool present_ = true;
};

using Outcome = Result<Value>;

class Evaluator {
 public:
  Evaluator(const std::string& text, const Json& roots) : text_(text), roots_(roots) {}

  Outcome Visit(const Expr& expr) {
    if (++steps_ > kMaxSteps) return Fail(expr, "the expression takes too many steps");
    switch (expr.op) {
      case Op::kLiteral:
        return Value(&expr.literal);
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
      case Op::kNegate:
        return Unary(expr);
      case Op::kAnd:
      case Op::kOr:
        return Logic(expr);
      case Op::kTernary:
        return Ternary(expr);
      case Op::kList:
      case Op::kMap:
        return Container(expr);
      case Op::kCall:
      case Op::kMethod:
        return Call(expr);
      case Op::kMacro:
        return Macro(expr);
      default:
        return Binary(expr);
    }
  }

  Error Fail(const Expr& expr, const std::string& what) const {
    std::string part = text_.substr(expr.span.begin, expr.span.end - expr.span.begin);
    if (part.size() > 60) part = part.substr(0, 60) + "...";
    return Failed(ErrorClass::kValidation, what + " in '" + part + "'");
  }

 private:
  // What came from outside as 2 where a double is declared is the double 2.0.
  static Value Settle(const Type& type, Value value) {
    if (type.is(Kind::kDouble) && value.get().is_integer()) return Json(value.get().number());
    return value;
  }

  Outcome Ident(const Expr& expr) {
    if (expr.slot >= 0) return Settle(expr.type, Value(slots_[static_cast<size_t>(expr.slot)]));
    const Json& root = roots_[expr.name];
    if (root.is_null()) return Fail(expr, "'" + expr.name + "' has no value here");
    return Value(&root);
  }

  // The member, or nothing. A null where the graph declares a plain type counts as missing.
  static const Json* Find(const Expr& expr, const Type& member, const Json& base) {
    if (!base.contains(expr.name)) return nullptr;
    const Json& found = base[expr.name];
    const bool nullable = member.is(Kind::kDyn) || member.is(Kind::kNull);
    return found.is_null() && !nullable ? nullptr : &found;
  }

  Outcome Select(const Expr& expr) {
    Outcome base = Visit(*expr.args[0]);
    if (!base.ok()) return base;
    const bool wraps = expr.op == Op::kOptSelect || base->optional();
    if (!base->present()) return expr.op == Op::kHas ? Value(Json(false)) : Value::None();
    if (!base->get().is_object()) {
      return Fail(expr, "a value of type " + std::string(base->get().type_name()) +
                            " has no member '" + expr.name + "'");
    }
    const Type member = expr.op == Op::kHas ? HasMember(expr) : wraps ? *expr.type.item : expr.type;
    const Json* found = Find(expr, member, base->get());
    if (expr.op == Op::kHas) return Value(Json(found != nullptr));
    if (found == nullptr) {
      if (wraps) return Value::None();
      return Fail(expr, "there is no '" + expr.name + "'");
    }
    Value value = Settle(member, Borrow(*base, found));
    return wraps ? std::move(value).Some() : std::move(value);
  }

  static Type HasMember(const Expr& expr) {
    const Type& base = expr.args[0]->type;
    const Type& plain = base.is(Kind::kOptional) && base.item != nullptr ? *base.item : base;
    if (plain.record == nullptr) return DynType();
    const auto member = plain.record->members.find(expr.name);
    return member == plain.record->members.end() ? DynType() : member->second.type;
  }

  // A part of a borrowed value lives as long as the roots; a part of an owned one is copied out.
  static Value Borrow(const Value& whole, const Json* part) {
    return whole.borrowed() ? Value(part) : Value(*part);
  }

  Outcome Index(const Expr& expr) {
    Outcome base = Visit(*expr.args[0]);
    if (!base.ok()) return base;
    Outcome index = Visit(*expr.args[1]);
    if (!index.ok()) return index;
    const bool wraps = expr.op == Op::kOptIndex || base->optional();
    if (!base->present()) return Value::None();
    const Json& whole = base->get();
    const Json& key = index->get();
    const Json* found = nullptr;
    if (whole.is_array() && key.is_integer()) {
      const int64_t at = key.integer();
      if (at >= 0 && at < static_cast<int64_t>(whole.size())) {
        found = &whole.array()[static_cast<size_t>(at)];
      }
    } else if (whole.is_object() && key.is_string()) {
      if (whole.contains(key.string())) found = &whole[key.string()];
    } else {
      return Fail(expr, "a value of type " + std::string(whole.type_name()) +
                            " cannot be indexed by one of type " + key.type_name());
    }
    if (found == nullptr) {
      if (wraps) return Value::None();
      return Fail(expr, whole.is_array() ? "there is no item " + std::to_string(key.integer()) +
                                               " (there are " + std::to_string(whole.size()) + ")"
                                         : "there is no key '" + key.string().substr(0, 60) + "'");
    }
    Value value = Settle(wraps ? *expr.type.item : expr.type, Borrow(*base, found));
    return wraps ? std::move(value).Some() : std::move(value);
  }

  Outcome Unary(const Expr& expr) {
    Outcome operand = Visit(*expr.args[0]);
    if (!operand.ok()) return operand;
    const Json& value = operand->get();
    if (expr.op == Op::kNot) {
      if (!value.is_bool()) return NotBool(expr, value);
      return Value(Json(!value.boolean()));
    }
    if (value.is_double()) return Value(Json(-value.number()));
    if (!value.is_integer()) return Mismatch(expr, value, value);
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, value.integer(), &negated)) return Overflow(expr);
    return Value(Json(negated));
  }

  Error NotBool(const Expr& expr, const Json& value) const {
    return Fail(expr, "a bool is needed, not a value of type " + std::string(value.type_name()));
  }
  Error Overflow(const Expr& expr) const { return Fail(expr, "a number out of range"); }
  Error Mismatch(const Expr& expr, const Json& left, const Json& right) const {
    std::string what = "'" + expr.name + "' does not work between " + left.type_name() + " and " +
                       right.type_name();
    if (left.is_number() && right.is_number()) what += " (convert with double())";
    return Fail(expr, what);
  }

  // CEL's rule: a side that decides wins, whatever became of the other one.
  Outcome Logic(const Expr& expr) {
    const bool decides = expr.op == Op::kOr;
    Outcome left = Bool(*expr.args[0]);
    if (left.ok() && left->get().boolean() == decides) return left;
    Outcome right = Bool(*expr.args[1]);
    if (right.ok() && right->get().boolean() == decides) return right;
    return left.ok() ? right : left;
  }

  Outcome Bool(const Expr& expr) {
    Outcome value = Visit(expr);
    if (value.ok() && !value->get().is_bool()) return NotBool(expr, value->get());
    return value;
  }

  Outcome Ternary(const Expr& expr) {
    Outcome condition = Bool(*expr.args[0]);
    if (!condition.ok()) return condition;
    return Visit(*expr.args[condition->get().boolean() ? 1 : 2]);
  }

  Outcome Container(const Expr& expr) {
    Json made = expr.op == Op::kList ? Json(Json::Array{}) : Json(Json::Object{});
    const size_t stride = expr.op == Op::kList ? 1 : 2;
    for (size_t i = 0; i + stride <= expr.args.size(); i += stride) {
      Outcome first = Visit(*expr.args[i]);
      if (!first.ok()) return first;
      if (stride == 1) {
        made.push_back(std::move(*first).Take());
        continue;
      }
      if (!first->get().is_string()) return Fail(*expr.args[i], "a map's key must be a string");
      Outcome value = Visit(*expr.args[i + 1]);
      if (!value.ok()) return value;
      if (made.contains(first->get().string())) return Fail(*expr.args[i], "a key that is twice");
      made[first->get().string()] = std::move(*value).Take();
    }
    return Value(std::move(made));
  }

  Outcome Binary(const Expr& expr) {
    Outcome left = Visit(*expr.args[0]);
    if (!left.ok()) return left;
    Outcome right = Visit(*expr.args[1]);
    if (!right.ok()) return right;
    const Json& a = left->get();
    const Json& b = right->get();
    switch (expr.op) {
      case Op::kEqual:
        return Value(Json(Equal(*left, *right)));
      case Op::kNotEqual:
        return Value(Json(!Equal(*left, *right)));
      case Op::kIn:
        return In(expr, a, b);
      case Op::kLess:
      case Op::kLessEqual:
      case Op::kGreater:
      case Op::kGreaterEqual:
        return Order(expr, a, b);
      default:
        break;
    }
    if (a.is_integer() && b.is_integer()) return Integers(expr, a.integer(), b.integer());
    if (a.is_double() && b.is_double()) return Doubles(expr, a.number(), b.number());
    if (expr.op == Op::kAdd && a.is_string() && b.is_string()) {
      if (a.string().size() + b.string().size() > kMaxStringBytes) {
        return Fail(expr, "a string longer than 1 MiB");
      }
      Charge((a.string().size() + b.string().size()) / 64);
      return Value(Json(a.string() + b.string()));
    }
    if (expr.op == Op::kAdd && a.is_array() && b.is_array()) {
      Charge(a.size() + b.size());
      Json::Array joined = a.array();
      joined.insert(joined.end(), b.array().begin(), b.array().end());
      return Value(Json(std::move(joined)));
    }
    return Mismatch(expr, a, b);
  }

  static bool Equal(const Value& a, const Value& b) {
    if (a.optional() || b.optional()) {
      if (a.optional() != b.optional() || a.present() != b.present()) return false;
      return !a.present() || a.get() == b.get();
    }
    return a.get() == b.get();
  }

  Outcome In(const Expr& expr, const Json& item, const Json& whole) {
    Charge(whole.size());
    if (whole.is_object()) return Value(Json(item.is_string() && whole.contains(item.string())));
    if (!whole.is_array()) return Mismatch(expr, item, whole);
    for (const Json& each : whole.array()) {
      if (each == item) return Value(Json(true));
    }
    return Value(Json(false));
  }

  Outcome Order(const Expr& expr, const Json& a, const Json& b) {
    int order = 0;
    if (a.is_integer() && b.is_integer()) {
      order = a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
    } else if (a.is_number() && b.is_number()) {
      order = CompareNumbers(a, b);
    } else if (a.is_string() && b.is_string()) {
      order = a.string().compare(b.string());
    } else if (a.is_bool() && b.is_bool()) {
      order = static_cast<int>(a.boolean()) - static_cast<int>(b.boolean());
    } else {
      return Mismatch(expr, a, b);
    }
    switch (expr.op) {
      case Op::kLess:
        return Value(Json(order < 0));
      case Op::kLessEqual:
        return Value(Json(order <= 0));
      case Op::kGreater:
        return Value(Json(order > 0));
      default:
        return Value(Json(order >= 0));
    }
  }

  // Exact also where a 64-bit integer has no double of its own.
  static int CompareNumbers(const Json& a, const Json& b) {
    if (a.is_double() && b.is_integer()) return -CompareNumbers(b, a);
    if (a.is_double()) return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
    const double number = b.number();
    if (number >= 0x1p63) return -1;
    if (number < -0x1p63) return 1;
    const double whole = std::floor(number);
    const auto integer = static_cast<int64_t>(whole);
    if (a.integer() != integer) return a.integer() < integer ? -1 : 1;
    return number > whole ? -1 : 0;
  }

  Outcome Integers(const Expr& expr, int64_t a, int64_t b) {
    int64_t made = 0;
    bool overflow = false;
    switch (expr.op) {
      case Op::kAdd:
        overflow = __builtin_add_overflow(a, b, &made);
        break;
      case Op::kSubtract:
        overflow = __builtin_sub_overflow(a, b, &made);
        break;
      case Op::kMultiply:
        overflow = __builtin_mul_overflow(a, b, &made);
        break;
      default:
        if (b == 0) return Fail(expr, "division by zero");
        if (a == INT64_MIN && b == -1) return Overflow(expr);
        made = expr.op == Op::kDivide ? a / b : a % b;
    }
    if (overflow) return Overflow(expr);
    return Value(Json(made));
  }

  // No infinity and no not-a-number ever comes up: JSON could not carry them on.
  Outcome Doubles(const Expr& expr, double a, double b) {
    double made = 0;
    switch (expr.op) {
      case Op::kAdd:
        made = a + b;
        break;
      case Op::kSubtract:
        made = a - b;
        break;
      case Op::kMultiply:
        made = a * b;
        break;
      case Op::kDivide:
        if (b == 0) return Fail(expr, "division by zero");
        made = a / b;
        break;
      default:
        return Mismatch(expr, Json(a), Json(b));
    }
    if (!std::isfinite(made)) return Overflow(expr);
    return Value(Json(made));
  }

  Outcome Call(const Expr& expr) {
    std::vector<Value> args;
    const bool lazy = expr.name == "orValue" || expr.name == "or";
    for (size_t i = 0; i < expr.args.size(); ++i) {
      if (lazy && i == 1 && args[0].present()) break;
      Outcome arg = Visit(*expr.args[i]);
      if (!arg.ok()) return arg;
      args.push_back(std::move(*arg));
    }
    if (expr.name == "optional.none") return Value::None();
    if (expr.name == "optional.of") return std::move(args[0]).Some();
    if (expr.name == "hasValue") return Value(Json(args[0].present()));
    if (expr.name == "or") return std::move(args.back());
    if (expr.name == "orValue") return Settle(expr.type, std::move(args.back()).Plain());
    if (expr.name == "value") {
      if (!args[0].present()) return Fail(expr, "the optional has no value");
      return std::move(args[0]).Plain();
    }
    std::vector<const Json*> plain;
    for (const Value& arg : args) {
      plain.push_back(&arg.get());
      if (arg.get().is_string()) Charge(arg.get().string().size() / 64);
    }
    if (expr.name == "matches" && plain[0]->is_string() && plain[1]->is_string()) {
      Charge(plain[0]->string().size() * plain[1]->string().size() / 256);
    }
    if (steps_ > kMaxSteps) return Fail(expr, "the expression takes too many steps");
    Result<Json> made = CallFunction(expr.name, plain);
    if (!made.ok()) return Fail(expr, made.error().message);
    return Value(std::move(*made));
  }

  Outcome Macro(const Expr& expr) {
    Outcome range = Visit(*expr.args[0]);
    if (!range.ok()) return range;
    const Json& whole = range->get();
    Json::Array keys;
    if (whole.is_object()) {
      for (const auto& [key, value] : whole.object()) keys.emplace_back(key);
    } else if (!whole.is_array()) {
      return Fail(expr,
                  expr.name + "() needs a list or a map, not a value of type " + whole.type_name());
    }
    const Json::Array& items = whole.is_object() ? keys : whole.array();
    slots_.push_back(nullptr);
    Outcome made =
        expr.name == "all" || expr.name == "exists" ? Fold(expr, items) : Collect(expr, items);
    slots_.pop_back();
    return made;
  }

  // all() and exists() decide as && and || do: one item can outweigh another's error.
  Outcome Fold(const Expr& expr, const Json::Array& items) {
    const bool decides = expr.name == "exists";
    Outcome result = Value(Json(!decides));
    for (const Json& item : items) {
      slots_.back() = &item;
      Outcome one = Bool(*expr.args[1]);
      // A value of its own: what `one` borrows ends with this range.
      if (one.ok() && one->get().boolean() == decides) return Value(Json(decides));
      if (steps_ > kMaxSteps) return Fail(expr, "the expression takes too many steps");
      if (!one.ok() && result.ok()) result = std::move(one);
    }
    return result;
  }

  Outcome Collect(const Expr& expr, const Json::Array& items) {
    const bool maps = expr.name == "map";
    const bool filters = !maps || expr.args.size() == 3;
    Json::Array kept;
    for (const Json& item : items) {
      slots_.back() = &item;
      if (filters) {
        Outcome wanted = Bool(*expr.args[1]);
        if (!wanted.ok()) return wanted;
        if (!wanted->get().boolean()) continue;
      }
      Outcome made = maps ? Visit(*expr.args.back()) : Outcome(Value(&item));
      if (!made.ok()) return made;
      kept.push_back(expr.name == "exists_one" ? Json() : std::move(*made).Take());
    }
    if (expr.name == "exists_one") return Value(Json(kept.size() == 1));
    return Value(Json(std::move(kept)));
  }

  // Work that grows with the size of a value counts as steps too.
  void Charge(size_t steps) { steps_ += static_cast<int64_t>(steps); }

  const std::string& text_;
  const Json& roots_;
  std::vector<const Json*> slots_;
  int64_t steps_ = 0;
};

}  // namespace

Result<Json> Evaluate(const Expr& root, const std::string& text, const Json& roots) {
  Evaluator evaluator(text, roots);
  Outcome value = evaluator.Visit(root);
  if (!value.ok()) return value.error();
  if (!value->present()) return evaluator.Fail(root, "the optional has no value");
  return std::move(*value).Take();
}

}  // namespace kernel_evolve::expr
