#include "core/plugin/schema.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

const std::vector<std::string>& KnownTypes() {
  static const std::vector<std::string> types = {"string", "integer", "number", "boolean",
                                                 "array",  "object",  "null"};
  return types;
}

Error At(const std::string& where, const std::string& what) {
  return BadInput(where.empty() ? what : where + ": " + what);
}

std::string Under(const std::string& where, const std::string& name) {
  return where.empty() ? name : where + "." + name;
}

// The names in a `type` keyword, given alone or as a list.
std::vector<std::string> TypeNames(const Json& type) {
  std::vector<std::string> names;
  if (type.is_string()) names.push_back(type.string());
  if (type.is_array()) {
    for (const Json& name : type.array()) names.push_back(name.is_string() ? name.string() : "");
  }
  return names;
}

bool HasType(const Json& value, const std::string& name) {
  if (name == "boolean") return value.is_bool();
  if (name == "number") return value.is_number();
  return name == value.type_name();
}

bool IsLoadedFile(const Json& schema, const Json& value) {
  return schema.Text("x-ke") == "file" && value.size() == 2 && value["path"].is_string() &&
         value["text"].is_string();
}

Status CheckKeywordTypes(const Json& schema, const std::string& where) {
  const auto expect = [&](const char* key, bool fine, const char* what) {
    return !schema.contains(key) || fine ? Status() : At(where + "." + key, what);
  };
  const std::vector<std::string> types = TypeNames(schema["type"]);
  const bool known =
      !types.empty() && std::all_of(types.begin(), types.end(), [](const auto& name) {
        const auto& all = KnownTypes();
        return std::find(all.begin(), all.end(), name) != all.end();
      });
  const Json& required = schema["required"];
  const bool names =
      required.is_array() &&
      std::all_of(required.array().begin(), required.array().end(), [&](const Json& name) {
        return name.is_string() && schema["properties"].contains(name.string());
      });
  const std::string use = schema.Text("x-ke");
  for (const Status& status :
       {expect("type", known,
               "expected one of string, integer, number, boolean, array, object, null"),
        expect("enum", schema["enum"].is_array() && schema["enum"].size() > 0,
               "expected an array of values"),
        expect("minimum", schema["minimum"].is_number(), "expected a number"),
        expect("maximum", schema["maximum"].is_number(), "expected a number"),
        expect("description", schema["description"].is_string(), "expected text"),
        expect("required", names, "expected an array of names from 'properties'"),
        expect("additionalProperties", schema["additionalProperties"].is_bool(),
               "expected true or false"),
        expect("x-ke", use == "model" || use == "file", "expected \"model\" or \"file\"")}) {
    if (!status.ok()) return status;
  }
  return {};
}

Status CheckSchema(const Json& schema, const std::string& where) {
  static const std::set<std::string> kKeywords = {
      "type",        "enum",  "default",    "minimum",  "maximum",
      "description", "items", "properties", "required", "additionalProperties",
      "x-ke"};
  if (!schema.is_object()) {
    return At(where, std::string("expected object, got ") + schema.type_name());
  }
  for (const auto& [key, value] : schema.object()) {
    if (kKeywords.count(key) == 0) return At(where + "." + key, "this keyword is not supported");
  }
  if (Status types = CheckKeywordTypes(schema, where); !types.ok()) return types;
  if (schema.contains("items")) {
    if (Status items = CheckSchema(schema["items"], where + ".items"); !items.ok()) return items;
  }
  if (!schema.contains("properties")) return {};
  const Json& properties = schema["properties"];
  if (!properties.is_object()) return At(where + ".properties", "expected an object");
  for (const auto& [name, property] : properties.object()) {
    const std::string place = where + ".properties." + name;
    if (Status checked = CheckSchema(property, place); !checked.ok()) return checked;
    if (!property.contains("default")) continue;
    Result<Json> fits = ApplyParamsSchema(property, property["default"], place + ".default");
    if (!fits.ok()) return fits.error();
  }
  return {};
}

Status CheckValue(const Json& schema, const Json& value, const std::string& where) {
  const std::vector<std::string> types = TypeNames(schema["type"]);
  if (!types.empty() && std::none_of(types.begin(), types.end(),
                                     [&](const auto& name) { return HasType(value, name); })) {
    return At(where, "expected " + Join(types, " or ") + ", got " +
                         (value.is_bool() ? "boolean" : value.type_name()));
  }
  if (const Json& allowed = schema["enum"]; allowed.is_array()) {
    std::vector<std::string> printed;
    for (const Json& choice : allowed.array()) {
      if (choice == value) return {};
      printed.push_back(choice.Dump());
    }
    return At(where, "expected one of " + Join(printed, ", ") + ", got " + value.Dump());
  }
  if (!value.is_number()) return {};
  const Json& least = schema["minimum"];
  if (least.is_number() && value.number() < least.number()) {
    return At(where, "must be at least " + least.Dump() + ", got " + value.Dump());
  }
  const Json& most = schema["maximum"];
  if (most.is_number() && value.number() > most.number()) {
    return At(where, "must be at most " + most.Dump() + ", got " + value.Dump());
  }
  return {};
}

std::string UnknownName(const std::string& name, const Json& properties) {
  std::vector<std::string> known;
  if (properties.is_object()) {
    for (const auto& [key, value] : properties.object()) known.push_back(key);
  }
  if (known.empty()) return "unknown parameter; none is taken here";
  if (const auto near = Nearest(name, known)) {
    return "unknown parameter; did you mean '" + *near + "'?";
  }
  return "unknown parameter; known are " + Join(known, ", ");
}

Status Complete(const Json& schema, const std::string& where, Json* value);

Status CompleteObject(const Json& schema, const std::string& where, Json* value) {
  const Json& properties = schema["properties"];
  for (auto& [name, member] : value->object()) {
    const std::string place = Under(where, name);
    if (properties.contains(name)) {
      if (Status done = Complete(properties[name], place, &member); !done.ok()) return done;
    } else if (!schema.Flag("additionalProperties", true)) {
      return At(place, UnknownName(name, properties));
    }
  }
  if (properties.is_object()) {
    for (const auto& [name, property] : properties.object()) {
      if (!value->contains(name) && property.contains("default")) {
        (*value)[name] = property["default"];
      }
    }
  }
  if (const Json& required = schema["required"]; required.is_array()) {
    for (const Json& name : required.array()) {
      if (!value->contains(name.string())) {
        return At(Under(where, name.string()), "this parameter is required");
      }
    }
  }
  return {};
}

Status Complete(const Json& schema, const std::string& where, Json* value) {
  if (IsLoadedFile(schema, *value)) return {};
  if (Status checked = CheckValue(schema, *value, where); !checked.ok()) return checked;
  if (value->is_object()) return CompleteObject(schema, where, value);
  if (!value->is_array() || !schema.contains("items")) return {};
  for (size_t i = 0; i < value->array().size(); ++i) {
    const std::string place = where + "[" + std::to_string(i) + "]";
    if (Status done = Complete(schema["items"], place, &value->array()[i]); !done.ok()) return done;
  }
  return {};
}

}  // namespace

Status CheckParamsSchema(const Json& schema) {
  if (schema.Text("type") != "object") return At("params_schema.type", "expected \"object\"");
  return CheckSchema(schema, "params_schema");
}

Result<Json> ApplyParamsSchema(const Json& schema, const Json& params, const std::string& where) {
  Result<Json> value(params);
  if (params.is_null() && schema.Text("type") == "object") value = Json::Obj();
  Status done = Complete(schema, where, &value.value());
  if (!done.ok()) return done.error();
  return value;
}

}  // namespace kernel_evolve
