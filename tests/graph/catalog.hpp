// The node types that the tests of the graph language are told about, written by hand: no plugin
// is loaded to check a graph.
#pragma once

#include "core/graph/graph.hpp"

namespace kernel_evolve::graph {

inline Json SchemaOf(const char* text) { return Json::Parse(text).value(); }

inline NodeTypeCatalog TestCatalog() {
  using T = ValueType;
  const char* model_only = R"({"type": "object", "additionalProperties": false,
    "properties": {"model": {"type": "string", "x-ke": "model"}}, "required": ["model"]})";
  NodeTypeCatalog catalog;
  catalog["kernel/analyze"] = {"kernel/analyze",
                               SchemaOf(model_only),
                               {},
                               {{"analysis", T::kObject, true}},
                               {{"ok", T::kBool}, {"rewritable", T::kBool}},
                               {}};
  catalog["kernel/generate"] = {
      "kernel/generate",
      SchemaOf(R"({"type": "object", "additionalProperties": false, "required": ["model"],
        "properties": {
          "model": {"type": "string", "x-ke": "model"},
          "prompt": {"type": "string", "x-ke": "file"},
          "temperature": {"type": "number", "minimum": 0, "maximum": 2, "default": 0.8},
          "attempts": {"type": "integer", "minimum": 1},
          "style": {"type": "string", "enum": ["whole", "edit"]},
          "strict": {"type": "boolean"},
          "hints": {"type": "array", "items": {"type": "string"}},
          "extra": {"type": "object", "additionalProperties": true}}})"),
      {{"best", T::kCandidate, false},
       {"lessons", T::kArray, false},
       {"analysis", T::kObject, false}},
      {{"candidate", T::kCandidate, true}},
      {{"ok", T::kBool}},
      {}};
  catalog["kernel/compile"] = {"kernel/compile",
                               SchemaOf(R"({"type": "object",
                               "properties": {}, "additionalProperties": false})"),
                               {{"candidate", T::kCandidate, true}},
                               {{"verdict", T::kVerdict, true}},
                               {{"ok", T::kBool}},
                               {}};
  catalog["kernel/evaluate"] = {
      "kernel/evaluate",
      Json(),
      {{"candidate", T::kCandidate, true}},
      {{"verdict", T::kVerdict, true}, {"best", T::kCandidate, true}},
      {{"ok", T::kBool}, {"correct", T::kBool}, {"win", T::kBool}, {"speedup", T::kNumber}},
      {}};
  catalog["kernel/reflect"] = {"kernel/reflect",
                               SchemaOf(model_only),
                               {{"candidate", T::kCandidate, true},
                                {"verdict", T::kVerdict, true},
                                {"lessons", T::kArray, false}},
                               {{"lessons", T::kArray, true}},
                               {{"ok", T::kBool}},
                               {}};
  // Small ones that carry nothing about kernels.
  catalog["test/step"] = {"test/step", Json(), {}, {}, {{"ok", T::kBool}}, {}};
  catalog["test/judge"] = {"test/judge", Json(), {}, {}, {}, {"approve", "revise"}};
  catalog["test/count"] = {"test/count", Json(), {}, {{"total", T::kInteger, true}}, {}, {}};
  catalog["test/read"] = {"test/read", Json(), {{"total", T::kInteger, true}}, {}, {}, {}};
  return catalog;
}

}  // namespace kernel_evolve::graph
