// Parameters of a type: the subset of JSON Schema that a plugin may use, and its check.
// Pure functions.
//
// The root is {"type": "object", "properties": {...}, "required": [...],
// "additionalProperties": false}. A property may say: type (a name or a list of names), enum,
// default, minimum, maximum, description, items, properties, required, additionalProperties, and
// "x-ke" ("model" or "file"). Any other keyword is refused when the plugin is read, so that nobody
// relies on a rule that is not enforced.
#pragma once

#include <string>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace kernel_evolve {

// Whether `schema` keeps to the subset. The error says where: "params_schema.properties.prompt:
// ...".
Status CheckParamsSchema(const Json& schema);

// Checks `params` (null counts as {}) and returns them completed with the defaults. The first
// violation is an error of class validation, exit 2, that begins with its place:
// "with.prompt: expected string, got integer". A property with "x-ke": "file" takes a string or
// what the host made of it, {"path", "text"}. With an empty `where` a place is the parameter alone.
Result<Json> ApplyParamsSchema(const Json& schema, const Json& params,
                               const std::string& where = "with");

}  // namespace kernel_evolve
