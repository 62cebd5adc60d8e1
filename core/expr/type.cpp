#include "core/expr/type.hpp"

#include <utility>

namespace kernel_evolve::expr {
namespace {

Type Plain(Kind kind) {
  Type type;
  type.kind = kind;
  return type;
}

Type Around(Kind kind, Type item) {
  Type type = Plain(kind);
  type.item = std::make_shared<const Type>(std::move(item));
  return type;
}

}  // namespace

Type DynType() { return Plain(Kind::kDyn); }
Type BoolType() { return Plain(Kind::kBool); }
Type IntType() { return Plain(Kind::kInt); }
Type DoubleType() { return Plain(Kind::kDouble); }
Type StringType() { return Plain(Kind::kString); }
Type ListOf(Type item) { return Around(Kind::kList, std::move(item)); }
Type MapOf(Type value) { return Around(Kind::kMap, std::move(value)); }
Type OptionalOf(Type content) { return Around(Kind::kOptional, std::move(content)); }

Type RecordType(std::string noun, std::map<std::string, Member> members) {
  Type type = Around(Kind::kMap, DynType());
  type.record = std::make_shared<const Record>(Record{std::move(noun), std::move(members)});
  return type;
}

std::string TypeName(const Type& type) {
  switch (type.kind) {
    case Kind::kDyn:
      return "dyn";
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kDouble:
      return "double";
    case Kind::kString:
      return "string";
    case Kind::kList:
      return "list";
    case Kind::kMap:
      return "map";
    case Kind::kOptional:
      return "optional";
  }
  return "dyn";
}

}  // namespace kernel_evolve::expr
