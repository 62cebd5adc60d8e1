// Static types of expressions, and the names an expression may use.
//
// Value types; types are immutable once built and cheap to copy. Thread-safe as const.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace kernel_evolve::expr {

enum class Kind { kDyn, kNull, kBool, kInt, kDouble, kString, kList, kMap, kOptional };

struct Record;

// `kDyn` is known at run time only. A map with a record has known members, and others only through
// an index (m['x'], which is dyn); one without has any.
struct Type {
  Kind kind = Kind::kDyn;
  std::shared_ptr<const Type> item;      // of a list, of a map's values, inside an optional
  std::shared_ptr<const Record> record;  // of a map with known members

  bool is(Kind other) const { return kind == other; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kDouble; }
};

struct Member {
  Type type;
  // True where the member can be missing at run time: `a.b` is then a load error, `a.?b` is not.
  bool may_be_absent = false;
};

struct Record {
  std::string noun = "member";  // for "no <noun> is called 'x'"
  std::map<std::string, Member> members;
};

Type DynType();
Type BoolType();
Type IntType();
Type DoubleType();
Type StringType();
Type ListOf(Type item);
Type MapOf(Type value);
Type OptionalOf(Type content);
Type RecordType(std::string noun, std::map<std::string, Member> members);

// "bool", "int", "double", "list", ... as the messages say it.
std::string TypeName(const Type& type);

// The root names of an expression and the type of each.
using TypeEnv = std::map<std::string, Type>;

}  // namespace kernel_evolve::expr
