// The JSON Schema subset that node types describe their parameters with: type, enum, minimum,
// maximum, items, properties, required, additionalProperties, default, and `x-ke` (model, file).
// Internal to graph/. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/expr/type.hpp"

namespace kernel_evolve::graph {

// "string", "integer", ... or "" where the schema leaves the type open.
std::string SchemaType(const Json& schema);

// Whether names outside `properties` are allowed: only where the schema says so, or names none.
bool SchemaIsOpen(const Json& schema);

std::vector<std::string> SchemaRequired(const Json& schema);

// Fails with class `validation` and a sentence about `what`. An `x-ke: file` is satisfied by the
// object that replaces it.
Status CheckSchema(const Json& schema, const Json& value, const std::string& what);

// Whether an expression of that type can give a value for the schema.
bool TypeFitsSchema(const expr::Type& type, const Json& schema);

}  // namespace kernel_evolve::graph
