// The node types of the shipped strategies.
#include "authoring_nodes.hpp"
#include "judging_nodes.hpp"

namespace {

constexpr char kAuthorParams[] = R"({
  "type": "object",
  "properties": {
    "model": {"type": "string", "x-ke": "model", "description": "Alias of the model to ask"},
    "prompt": {"type": "string", "x-ke": "file", "description": "Mustache template"},
    "hints": {"type": "array", "items": {"type": "string"}, "default": [],
              "description": "Free text from the user"}
  },
  "required": ["model", "prompt"],
  "additionalProperties": false
})";

constexpr char kGenerateParams[] = R"({
  "type": "object",
  "properties": {
    "model": {"type": "string", "x-ke": "model", "description": "Alias of the model to ask"},
    "prompt": {"type": "string", "x-ke": "file", "description": "Mustache template"},
    "hints": {"type": "array", "items": {"type": "string"}, "default": [],
              "description": "Free text from the user"},
    "start": {"type": "string", "default": "",
              "description": "Source of a kernel that is the first candidate; empty for none"}
  },
  "required": ["model", "prompt"],
  "additionalProperties": false
})";

constexpr char kNoParams[] = R"({"type": "object", "additionalProperties": false})";

constexpr char kStopParams[] = R"({
  "type": "object",
  "properties": {"reason": {"type": "string", "description": "One sentence for the user"}},
  "required": ["reason"],
  "additionalProperties": false
})";

constexpr char kAnalyze[] = R"({
  "ports": {"in": [], "out": [{"name": "analysis", "type": "object"}]},
  "result": {"ok": "bool", "rewritable": "bool"}
})";

constexpr char kGenerate[] = R"({
  "ports": {
    "in": [{"name": "analysis", "type": "object", "required": false},
           {"name": "best", "type": "candidate", "required": false},
           {"name": "candidate", "type": "candidate", "required": false},
           {"name": "verdict", "type": "verdict", "required": false},
           {"name": "lessons", "type": "array", "required": false},
           {"name": "attempts", "type": "array", "required": false}],
    "out": [{"name": "candidate", "type": "candidate"}]
  },
  "result": {"ok": "bool"}
})";

constexpr char kCompile[] = R"({
  "ports": {
    "in": [{"name": "candidate", "type": "candidate", "required": true}],
    "out": [{"name": "verdict", "type": "verdict"}, {"name": "attempts", "type": "array"}]
  },
  "result": {"ok": "bool"}
})";

constexpr char kEvaluate[] = R"({
  "ports": {
    "in": [{"name": "candidate", "type": "candidate", "required": true}],
    "out": [{"name": "verdict", "type": "verdict"}, {"name": "best", "type": "candidate"},
            {"name": "attempts", "type": "array"}]
  },
  "result": {"ok": "bool", "correct": "bool", "win": "bool", "speedup": "number"}
})";

constexpr char kReflect[] = R"({
  "ports": {
    "in": [{"name": "candidate", "type": "candidate", "required": true},
           {"name": "verdict", "type": "verdict", "required": true},
           {"name": "best", "type": "candidate", "required": false},
           {"name": "lessons", "type": "array", "required": false},
           {"name": "attempts", "type": "array", "required": false}],
    "out": [{"name": "lessons", "type": "array"}]
  },
  "result": {"ok": "bool"}
})";

constexpr char kNoPorts[] = R"({"ports": {"in": [], "out": []}, "result": {"ok": "bool"}})";

}  // namespace

KERNEL_EVOLVE_PLUGIN(
    "kernel_nodes", "1.0.0",
    Node<kernel_nodes::AnalyzeNode>("kernel/analyze", "Asks the author what to do with the task",
                                    kAuthorParams, kAnalyze),
    Node<kernel_nodes::GenerateNode>("kernel/generate", "Asks the author for the next candidate",
                                     kGenerateParams, kGenerate),
    Node<kernel_nodes::CompileNode>("kernel/compile", "Checks and compiles the candidate",
                                    kNoParams, kCompile),
    Node<kernel_nodes::EvaluateNode>("kernel/evaluate", "Has the candidate judged in full",
                                     kNoParams, kEvaluate),
    Node<kernel_nodes::ReflectNode>("kernel/reflect", "Turns the last verdict into a lesson",
                                    kAuthorParams, kReflect),
    Node<kernel_nodes::StopNode>("kernel/stop", "Ends the run as failed, with a reason",
                                 kStopParams, kNoPorts))
