// A loaded graph at work: the example of the documentation, parameters, inputs, patches, drawings.
#include "core/graph/graph.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/base/file.hpp"
#include "core/graph/loader.hpp"
#include "core/graph/printer.hpp"
#include "tests/graph/catalog.hpp"

namespace kernel_evolve::graph {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(KERNEL_EVOLVE_SOURCE_DIR) / "tests/graph/cases";

Json J(const std::string& text) { return Json::Parse(text).value(); }

Graph Load(const std::string& text) {
  LoadedGraph loaded = LoadGraphText(text, "g.yaml", kCases / "files", TestCatalog());
  for (const Diagnostic& d : loaded.diagnostics) {
    ADD_FAILURE() << FormatDiagnostic(d, loaded.source);
  }
  return loaded.graph.value_or(Graph{});
}

// The document of a golden case.
std::string DocumentOf(const std::string& name) {
  const std::string text = ReadFile(kCases / (name + ".case")).value();
  const size_t begin = text.find("--- graph\n") + 10;
  return text.substr(begin, text.find("--- says\n") - begin);
}

Graph Example() { return Load(DocumentOf("good_evolve")); }

Json Roots() {
  return J(R"({"inputs": {"target_speedup": 2.0, "generations": 8}, "state": {},
    "visits": {"analyze": 1, "generate": 3, "compile": 3, "evaluate": 2, "reflect": 3},
    "result": {"ok": true},
    "budget": {"used": {"wall": 1.0}, "left": {}},
    "run": {"id": "r", "graph": "evolve", "seed": 7, "step": 4}})");
}

TEST(Example, IsReadInFull) {
  const Graph graph = Example();
  EXPECT_EQ(graph.name, "evolve");
  EXPECT_EQ(graph.start, "analyze");
  EXPECT_EQ(graph.requires_plugins.at("kernel_nodes"), ">=1.0 <2");
  EXPECT_EQ(graph.inputs.at("generations").default_value, Json(8));
  EXPECT_EQ(graph.inputs.at("generations").minimum, 1.0);
  EXPECT_FALSE(graph.inputs.at("task").default_value.has_value());
  EXPECT_EQ(graph.models.at("author").needs, std::vector<std::string>{"tools"});
  EXPECT_EQ(graph.budget.wall_s, 1800.0);
  EXPECT_EQ(graph.budget.tokens, 400000);
  EXPECT_FALSE(graph.budget.cost.has_value());
  ASSERT_EQ(graph.nodes.size(), 5U);
  const Node& reflect = *graph.Find("reflect");
  ASSERT_EQ(reflect.next.size(), 3U);
  EXPECT_EQ(reflect.next[0].to, kEnd);
  EXPECT_EQ(reflect.next[1].max_visits, 100);
  EXPECT_TRUE(reflect.next[2].is_else);
  EXPECT_EQ(reflect.next[2].text, "else");
  EXPECT_EQ(graph.Find("end"), nullptr);
}

TEST(Example, MakesChannelsForPortsThatNobodyDeclared) {
  const Graph graph = Example();
  EXPECT_FALSE(graph.state.at("best").implicit);
  EXPECT_EQ(graph.state.at("best").merge, MergeRule::kBest);
  EXPECT_TRUE(graph.state.at("candidate").implicit);
  EXPECT_EQ(graph.state.at("candidate").type, ValueType::kCandidate);
  EXPECT_EQ(graph.state.at("candidate").merge, MergeRule::kReplace);
  EXPECT_EQ(graph.Find("compile")->in.at("candidate"), "candidate");
  EXPECT_EQ(graph.Find("evaluate")->out.at("best"), "best");
}

TEST(Example, RoutesByItsConditions) {
  const Graph graph = Example();
  const Node& reflect = *graph.Find("reflect");
  Json roots = Roots();
  EXPECT_EQ(reflect.next[0].when->Evaluate(roots).value(), Json(false));
  EXPECT_EQ(reflect.next[1].when->Evaluate(roots).value(), Json(true));
  roots["state"]["best"] = J(R"({"code": "", "speedup": 2})");
  EXPECT_EQ(reflect.next[0].when->Evaluate(roots).value(), Json(true));
}

TEST(Example, HashCoversTheDocumentAndTheFilesItNames) {
  const Graph graph = Example();
  EXPECT_EQ(graph.hash.size(), 64U);
  EXPECT_EQ(graph.hash, Example().hash);
  EXPECT_NE(graph.hash, Load(DocumentOf("good_evolve") + "# changed\n").hash);
  const fs::path folder = fs::path(testing::TempDir()) / "graph_hash";
  fs::create_directories(folder / "prompts");
  const auto hash_with = [&](const std::string& prompt) {
    EXPECT_TRUE(WriteFileAtomically(folder / "prompts/generate.md", prompt).ok());
    return LoadGraphText(DocumentOf("good_evolve"), "g", folder, TestCatalog()).graph->hash;
  };
  EXPECT_NE(hash_with("one"), hash_with("two"));
}

TEST(Parameters, FillInDefaultsAndReplaceFiles) {
  const Graph graph = Example();
  EXPECT_EQ(EvaluateWith(*graph.Find("generate"), Roots()).value(),
            J(R"({"model": "author", "temperature": 0.8, "prompt": {"path": "prompts/generate.md",
                  "text": "Write a kernel for {{task}}.\n"}})"));
}

TEST(Parameters, AreComputedFromTheRun) {
  const Graph graph = Load(DocumentOf("good_templates"));
  Json roots = Roots();
  roots["inputs"] = J(R"({"tries": 3, "hot": 1})");
  const Node& node = *graph.Find("a");
  EXPECT_EQ(EvaluateWith(node, roots)->Dump(),
            R"({"attempts":4,"extra":{"nested":[true,2,"3"],"seed":7},)"
            R"("hints":["try 3 tiles","costs ${x}"],"model":"author","temperature":1.0})");
  roots["inputs"]["tries"] = Json(-4);
  EXPECT_EQ(EvaluateWith(node, roots).error().message,
            "node 'a', with.attempts must be at least 1");
  roots["inputs"]["tries"] = Json(INT64_MAX);
  EXPECT_EQ(EvaluateWith(node, roots).error().message,
            "node 'a', 'with': a number out of range in 'inputs.tries + 1'");
}

TEST(Inputs, AreCheckedAndCompleted) {
  const Graph graph = Example();
  const Json task = J(R"({"source": "class Model: ..."})");
  const auto bind = [&](const Json& given) {
    const Result<Json> bound = BindInputs(graph, given);
    return bound.ok() ? bound->Dump() : "error: " + bound.error().message;
  };
  EXPECT_EQ(bind(Json::Obj({{"task", task}, {"generations", 3}})),
            R"({"generations":3,"target_speedup":2.0,"task":{"source":"class Model: ..."}})");
  EXPECT_EQ(bind(Json::Obj()), "error: graph 'evolve' needs the input 'task' (task)");
  EXPECT_EQ(bind(Json::Obj({{"task", task}, {"generation", 3}})),
            "error: graph 'evolve' has no input 'generation'; did you mean 'generations'?");
  EXPECT_EQ(bind(Json::Obj({{"task", task}, {"generations", 0}})),
            "error: input 'generations' must be at least 1.0");
  EXPECT_EQ(bind(Json::Obj({{"task", task}, {"generations", "3"}})),
            "error: input 'generations': a value of type string is not of type integer, which is "
            "a whole number such as 8");
}

TEST(Patches, AreAppliedAsAWholeOrNotAtAll) {
  const Graph graph = Example();
  const Node& evaluate = *graph.Find("evaluate");
  const std::string verdict = R"({"stage": "done", "ok": true, "correct": true})";
  Json state = J(R"({"lessons": ["a"]})");
  ASSERT_TRUE(ApplyPatch(graph, evaluate,
                         J(R"({"verdict": )" + verdict + R"(, "best": {"code": "x"}})"), &state)
                  .ok());
  EXPECT_FALSE(state.contains("best")) << "a candidate without a correct verdict is nobody's best";
  EXPECT_TRUE(state["verdict"].Flag("ok"));
  const Json before = state;
  const Status bad = ApplyPatch(
      graph, evaluate, J(R"({"best": {"code": "x", "verdict": )" + verdict + R"(}, "verdict": 3})"),
      &state);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().error_class, ErrorClass::kValidation);
  EXPECT_EQ(state, before);
  const Status unknown = ApplyPatch(graph, evaluate, J(R"({"speed": 3})"), &state);
  EXPECT_EQ(unknown.error().message, "node 'evaluate' wrote to 'speed', which is no port of it");
  ASSERT_TRUE(ApplyPatch(graph, *graph.Find("reflect"), J(R"({"lessons": ["b"]})"), &state).ok());
  EXPECT_EQ(state["lessons"].Dump(), R"(["a","b"])");
}

TEST(Ports, LeaveOutWhatIsAbsentAndInsistOnWhatIsRequired) {
  const Graph graph = Example();
  EXPECT_EQ(ReadPorts(graph, *graph.Find("generate"), J(R"({"lessons": ["a"]})"))->Dump(),
            R"({"lessons":["a"]})");
  EXPECT_EQ(ReadPorts(graph, *graph.Find("compile"), Json::Obj()).error().message,
            "node 'compile' of graph 'evolve' needs channel 'candidate', which nothing has "
            "written yet");
}

TEST(Loader, SaysWhichFileItCannotRead) {
  const LoadedGraph loaded = LoadGraph("/nowhere/g.yaml", "/nowhere", TestCatalog());
  ASSERT_EQ(loaded.diagnostics.size(), 1U);
  EXPECT_EQ(FormatDiagnostic(loaded.diagnostics[0], ""),
            "/nowhere/g.yaml: error[KE1001]: cannot read /nowhere/g.yaml: No such file or "
            "directory\n");
}

TEST(Loader, RefusesALinkThatLeavesTheTree) {
  const fs::path folder = fs::path(testing::TempDir()) / "graph_links";
  fs::remove_all(folder);
  fs::create_directories(folder / "prompts");
  fs::create_symlink("/etc/hostname", folder / "prompts/generate.md");
  const LoadedGraph loaded =
      LoadGraphText(DocumentOf("good_evolve"), "g.yaml", folder, TestCatalog());
  ASSERT_EQ(loaded.diagnostics.size(), 1U);
  EXPECT_EQ(loaded.diagnostics[0].code, "KE1134");
}

TEST(Loader, StaysWithinBoundsOnHostileDocuments) {
  const auto codes = [](const std::string& text) {
    const LoadedGraph loaded = LoadGraphText(text, "g.yaml", kCases, TestCatalog());
    return loaded.diagnostics.empty() ? "" : loaded.diagnostics[0].code;
  };
  EXPECT_EQ(codes(std::string((size_t{4} << 20U) + 1, 'a')), "KE1002");
  EXPECT_EQ(codes(std::string(100000, '[')), "KE1014");
  EXPECT_EQ(codes(std::string(100000, '{')), "KE1014");
  std::string keys = "kernel_evolve: 1\nname: many\nstart: a\nnodes:\n";
  for (int i = 0; i < 5000; ++i) {
    keys += "  n" + std::to_string(i) + ": {uses: test/step, next: end}\n";
  }
  const LoadedGraph loaded = LoadGraphText(keys, "g.yaml", kCases, TestCatalog());
  ASSERT_FALSE(loaded.diagnostics.empty());
  EXPECT_LE(loaded.diagnostics.size(), 500U);
  EXPECT_EQ(loaded.diagnostics.back().code, "KE1121");
}

TEST(Drawing, MermaidAndDot) {
  const Graph graph = Load(
      "kernel_evolve: 1\nname: small\nstart: a\nnodes:\n"
      "  a:\n    uses: test/step\n    next:\n"
      "      - {when: 'run.graph == \"x\" && visits.a < 3', to: a, max_visits: 5}\n"
      "      - {else: end}\n");
  EXPECT_EQ(ToMermaid(graph),
            "flowchart TD\n"
            "  begin([start])\n"
            "  n0[\"a<br/>test/step\"]\n"
            "  stop([end])\n"
            "  begin --> n0\n"
            "  n0 -->|\"run.graph == #quot;x#quot; #amp;#amp; visits.a #lt; 3 (at most 5)\"| n0\n"
            "  n0 -->|\"else\"| stop\n");
  EXPECT_EQ(ToDot(graph),
            "digraph \"small\" {\n"
            "  node [shape=box, style=rounded];\n"
            "  \"start\" [shape=oval];\n"
            "  \"end\" [shape=oval];\n"
            "  \"node a\" [label=\"a\\ntest/step\"];\n"
            "  \"start\" -> \"node a\";\n"
            "  \"node a\" -> \"node a\" [label=\"run.graph == \\\"x\\\" && visits.a < 3 (at most "
            "5)\"];\n"
            "  \"node a\" -> \"end\" [label=\"else\"];\n"
            "}\n");
}

TEST(Diagnostics, HaveAJsonForm) {
  const LoadedGraph loaded = LoadGraphText(
      "kernel_evolve: 1\nname: x\nstart: b\nnodes:\n  a: {uses: test/step, next: end}\n", "g.yaml",
      kCases, TestCatalog());
  EXPECT_EQ(DiagnosticsToJson(loaded.diagnostics).Dump(),
            R"([{"code":"KE1103","column":8,"file":"g.yaml","hint":"known: a",)"
            R"("length":1,"line":3,"message":"no node is called 'b'","severity":"error"}])");
}

}  // namespace
}  // namespace kernel_evolve::graph
