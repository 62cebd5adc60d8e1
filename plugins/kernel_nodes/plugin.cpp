// The node types of the shipped strategies.
#include "agent.hpp"
#include "authoring_nodes.hpp"
#include "judging_nodes.hpp"

namespace {

using nlohmann::json;

// What every node that asks a model takes, and `more` of its own.
json AuthorParams(const json& more = json::object()) {
  json properties = json::parse(R"({
    "model": {"type": "string", "x-ke": "model", "description": "Alias of the model to ask"},
    "prompt": {"type": "string", "x-ke": "file", "description": "Mustache template"},
    "hints": {"type": "array", "items": {"type": "string"}, "default": [],
              "description": "Free text from the user"},
    "facts": {"type": "string", "x-ke": "file",
              "description": "Text that the template inserts as {{facts}}"},
    "inspect": {"type": "array", "items": {"type": "string", "x-ke": "file"}, "default": [],
                "description": "Pages that the model can look up; without any it has no such tool"},
    "prompt_tokens": {"type": "integer", "minimum": 1000, "default": 24000,
                      "description": "Budget of the prompt, at 4 bytes a token"}
  })");
  properties.update(more);
  return {{"type", "object"},
          {"properties", properties},
          {"required", {"model", "prompt"}},
          {"additionalProperties", false}};
}

json StartParam() {
  return {{"start",
           {{"type", "string"},
            {"default", ""},
            {"description", "Source of a kernel that is the first candidate; empty for none"}}}};
}

json AgentParams() {
  json more = json::parse(R"({
    "max_turns": {"type": "integer", "minimum": 1, "default": 30,
                  "description": "Model calls at most"},
    "target_speedup": {"type": "number", "minimum": 0, "default": 0,
                       "description": "Ends once a candidate is that much faster; 0: no target"},
    "context_tokens": {"type": "integer", "minimum": 2000, "default": 60000,
                       "description": "Size of the conversation from which old turns are shortened"}
  })");
  more.update(StartParam());
  return AuthorParams(more);
}

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

constexpr char kAgent[] = R"({
  "ports": {
    "in": [{"name": "analysis", "type": "object", "required": false},
           {"name": "best", "type": "candidate", "required": false},
           {"name": "lessons", "type": "array", "required": false},
           {"name": "attempts", "type": "array", "required": false}],
    "out": [{"name": "best", "type": "candidate"}, {"name": "attempts", "type": "array"},
            {"name": "said", "type": "string"}]
  },
  "result": {"ok": "bool", "turns": "integer", "attempts": "integer", "win": "bool",
             "ended": "string"}
})";

constexpr char kNoPorts[] = R"({"ports": {"in": [], "out": []}, "result": {"ok": "bool"}})";

}  // namespace

KERNEL_EVOLVE_PLUGIN(
    "kernel_nodes", "1.1.0",
    Node<kernel_nodes::AnalyzeNode>("kernel/analyze", "Asks the author what to do with the task",
                                    AuthorParams(), kAnalyze),
    Node<kernel_nodes::GenerateNode>("kernel/generate", "Asks the author for the next candidate",
                                     AuthorParams(StartParam()), kGenerate),
    Node<kernel_nodes::CompileNode>("kernel/compile", "Checks and compiles the candidate",
                                    kNoParams, kCompile),
    Node<kernel_nodes::EvaluateNode>("kernel/evaluate", "Has the candidate judged in full",
                                     kNoParams, kEvaluate),
    Node<kernel_nodes::ReflectNode>("kernel/reflect", "Turns the last verdict into a lesson",
                                    AuthorParams(), kReflect),
    Node<kernel_nodes::AgentNode>("kernel/agent",
                                  "One conversation that validates until it is content",
                                  AgentParams(), kAgent),
    Node<kernel_nodes::StopNode>("kernel/stop", "Ends the run as failed, with a reason",
                                 kStopParams, kNoPorts))
