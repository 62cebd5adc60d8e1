#include "core/graph/schema.hpp"

#include <algorithm>

#include "core/base/text.hpp"
#include "core/graph/fields.hpp"

namespace kernel_evolve::graph {
namespace {

bool HasType(const std::string& type, const Json& value) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_bool();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "null") return value.is_null();
  return true;
}

Status CheckEnum(const Json& choices, const Json& value, const std::string& what) {
  if (!choices.is_array()) return {};
  std::vector<std::string> shown;
  for (const Json& choice : choices.array()) {
    if (choice == value) return {};
    shown.push_back(choice.is_string() ? choice.string() : choice.Dump());
  }
  const std::string given = value.is_string() ? Quoted(value.string()) : Quoted(value.Dump());
  return Failed(ErrorClass::kValidation,
                what + " cannot be " + given + "; choose one of " + Join(shown, ", "));
}

std::string NumberText(const Json& number) { return number.Dump(); }

Status CheckRange(const Json& schema, const Json& value, const std::string& what) {
  if (!value.is_number()) return {};
  const Json& low = schema["minimum"];
  const Json& high = schema["maximum"];
  if (low.is_number() && value.number() < low.number()) {
    return Failed(ErrorClass::kValidation, what + " must be at least " + NumberText(low));
  }
  if (high.is_number() && value.number() > high.number()) {
    return Failed(ErrorClass::kValidation, what + " must be at most " + NumberText(high));
  }
  return {};
}

Status CheckMembers(const Json& schema, const Json& value, const std::string& what) {
  const Json& properties = schema["properties"];
  for (const std::string& name : SchemaRequired(schema)) {
    if (!value.contains(name)) {
      return Failed(ErrorClass::kValidation, what + " needs " + Quoted(name));
    }
  }
  for (const auto& [name, member] : value.object()) {
    if (properties.contains(name)) {
      Status fits = CheckSchema(properties[name], member, what + "." + name);
      if (!fits.ok()) return fits;
    } else if (!SchemaIsOpen(schema)) {
      return Failed(ErrorClass::kValidation, what + " has no " + Quoted(name));
    }
  }
  return {};
}

}  // namespace

std::string SchemaType(const Json& schema) { return schema.Text("type"); }

bool SchemaIsOpen(const Json& schema) {
  if (schema["additionalProperties"].is_bool()) return schema.Flag("additionalProperties");
  return !schema.contains("properties");
}

std::vector<std::string> SchemaRequired(const Json& schema) {
  std::vector<std::string> names;
  if (!schema["required"].is_array()) return names;
  for (const Json& name : schema["required"].array()) {
    if (name.is_string()) names.push_back(name.string());
  }
  return names;
}

Status CheckSchema(const Json& schema, const Json& value, const std::string& what) {
  if (schema.Text("x-ke") == "file" && value.is_object()) return {};
  const std::string type = SchemaType(schema);
  if (!HasType(type, value)) {
    return Failed(ErrorClass::kValidation,
                  what + " must be of type " + type + ", not " + value.type_name());
  }
  Status fits = CheckEnum(schema["enum"], value, what);
  if (fits.ok()) fits = CheckRange(schema, value, what);
  if (fits.ok() && value.is_object()) fits = CheckMembers(schema, value, what);
  if (fits.ok() && value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size() && fits.ok(); ++i) {
      fits = CheckSchema(schema["items"], value.array()[i], what + "[" + std::to_string(i) + "]");
    }
  }
  return fits;
}

bool TypeFitsSchema(const expr::Type& type, const Json& schema) {
  const std::string wanted = SchemaType(schema);
  switch (type.kind) {
    case expr::Kind::kDyn:
      return true;
    case expr::Kind::kBool:
      return wanted.empty() || wanted == "boolean";
    case expr::Kind::kInt:
      return wanted.empty() || wanted == "integer" || wanted == "number";
    case expr::Kind::kDouble:
      return wanted.empty() || wanted == "number";
    case expr::Kind::kString:
      return wanted.empty() || wanted == "string";
    case expr::Kind::kList:
      return wanted.empty() || wanted == "array";
    case expr::Kind::kMap:
      return wanted.empty() || wanted == "object";
    case expr::Kind::kNull:
      return wanted.empty() || wanted == "null";
    case expr::Kind::kOptional:
      return false;
  }
  return true;
}

}  // namespace kernel_evolve::graph
