// Whole runs: how they end, what they cost, and what they leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.hpp"
#include "tests/engine/support.hpp"

namespace kernel_evolve::test {
namespace {

using ::testing::HasSubstr;

// One node `work` of type t/work, whose visits are `visits` (JSON), and what else the script needs.
std::string Script(const std::string& visits, const std::string& more = "",
                   const std::string& node = "") {
  return R"({"nodes": {"t/work": {)" + node + R"("result": {"n": "integer", "d": "integer",
      "ok": "bool"}, "out": [{"name": "sum", "type": "integer"}, {"name": "text", "type": "string"}],
      "visits": )" +
         visits + "}}" + more + "}";
}

constexpr char kOnce[] = R"(kernel_evolve: 1
name: once
models:
  author: {needs: []}
start: work
nodes:
  work: {uses: t/work, next: end}
)";

constexpr char kAgain[] = R"(kernel_evolve: 1
name: again
models:
  author: {needs: []}
state:
  sum: {type: integer, merge: sum}
start: work
nodes:
  work: {uses: t/work, next: [{when: visits.work < 5, to: work, max_visits: 9}, {else: end}]}
)";

const std::string kProvider = R"(, "providers": {"fake": {"calls": [[{"done": {"response":
    {"text": "hi", "usage": {"input_tokens": 60, "output_tokens": 40}}}}]]}})";

const std::string kAsk = R"({"effects": [{"id": "a", "kind": "llm_complete", "model": "author",
    "request": {"messages": [{"role": "user", "content": "hello"}]}}]})";

struct Ran {
  RunOutcome outcome;
  std::string trace;
};

// Runs `yaml` in a fresh folder; `adjust` may change the spec.
Ran RunGraph(const std::string& yaml, World& world,
             const std::function<void(RunSpec&, graph::Graph&)>& adjust = {}) {
  graph::Graph graph = Load(yaml, world);
  const TempFolder folder;
  RunSpec spec = SpecFor(graph, world, folder.path() / "run");
  if (adjust) adjust(spec, graph);
  Ran ran;
  ran.outcome = RunIn(spec, world);
  ran.trace = world.trace.text();
  EXPECT_EQ(world.alive, 0) << "an instance was not destroyed";
  return ran;
}

// --- How runs end ---

class ErrorClasses : public ::testing::TestWithParam<int> {};

TEST_P(ErrorClasses, OfANodeEndTheRunWithClassAndSentence) {
  const auto error_class = static_cast<ErrorClass>(GetParam());
  const std::string name = ErrorClassName(error_class);
  World world(Script(R"([[{"error": {"class": ")" + name + R"(", "message": "it broke"}}]])"));
  const RunOutcome outcome = RunGraph(kOnce, world, [](RunSpec& spec, graph::Graph& graph) {
                               graph.models.clear();
                               spec.models.clear();
                             }).outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_EQ(outcome.reason, "node 'work': it broke");
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->error_class, error_class);
  const bool users = error_class == ErrorClass::kValidation;
  const bool environment =
      error_class == ErrorClass::kUnavailable || error_class == ErrorClass::kAuth;
  EXPECT_EQ(outcome.error->exit_code, users         ? kExitBadInput
                                      : environment ? kExitEnvironment
                                                    : kExitFailed);
}

INSTANTIATE_TEST_SUITE_P(All, ErrorClasses, ::testing::Range(0, 10), [](const auto& each) {
  return std::string(ErrorClassName(static_cast<ErrorClass>(each.param)));
});

struct Refused {
  const char* outcome;  // of the node's only step
  const char* sentence;
};

class BadOutcomes : public ::testing::TestWithParam<Refused> {};

TEST_P(BadOutcomes, AreRefusedBeforeAnythingIsCommitted) {
  World world(Script("[[" + std::string(GetParam().outcome) + "]]", kProvider));
  const RunOutcome outcome = RunGraph(kAgain, world).outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_THAT(outcome.reason, HasSubstr(GetParam().sentence));
  EXPECT_EQ(outcome.error->error_class, ErrorClass::kInvalidOutput);
  EXPECT_EQ(outcome.state, Json::Obj()) << "half of a patch was committed";
}

INSTANTIATE_TEST_SUITE_P(
    Patches, BadOutcomes,
    ::testing::Values(
        Refused{R"({"done": {"out": {"sum": 1, "nowhere": 1}}})", "'nowhere'"},
        Refused{R"({"done": {"out": {"sum": 1, "text": 5}}})", "channel 'text'"},
        Refused{R"({"done": {"out": {"sum": "one"}}})", "channel 'sum'"},
        Refused{R"({"done": {"out": {"sum": null}}})", "channel 'sum'"},
        Refused{R"({"done": {"result": {"other": 1}, "out": {"sum": 1}}})",
                "node 'work': it returned the result field 'other', which its type does not "
                "declare"},
        Refused{R"({"done": {"result": {"n": "x"}, "out": {"sum": 1}}})",
                "node 'work': it returned the result field 'n' with a wrong value"},
        Refused{R"({"effects": []})", "effects"},
        Refused{R"({"effects": [{"id": "a", "kind": "fly"}]})", "'fly'"}));

TEST(RunEnds, WhenNoEdgeMatchesWithTheResultAndTheLine) {
  World world(Script(R"([[{"done": {"result": {"ok": false}}}]])"));
  const std::string yaml = R"(kernel_evolve: 1
name: silent
start: work
nodes:
  work: {uses: t/work, next: [{when: result.ok, to: end}, {else: end}]}
)";
  const Ran ran = RunGraph(yaml, world, [](RunSpec&, graph::Graph& graph) {
    graph.nodes[0].next.pop_back();  // the loader would not let this pass
  });
  EXPECT_EQ(ran.outcome.status, "failed");
  EXPECT_EQ(ran.outcome.reason,
            "node 'work': no edge (line 5) matches its result {\"ok\":false}; add an 'else' edge");
  EXPECT_EQ(ran.outcome.error->error_class, ErrorClass::kValidation);
}

TEST(RunEnds, WhenAConditionFailsWithNodeLineAndExpression) {
  World world(Script(R"([[{"done": {"result": {"n": 1, "d": 0}}}]])"));
  const std::string yaml = R"(kernel_evolve: 1
name: divides
start: work
nodes:
  work:
    uses: t/work
    next:
      - {when: result.n / result.d > 1, to: end}
      - {else: end}
)";
  const RunOutcome outcome = RunGraph(yaml, world).outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_THAT(outcome.reason, HasSubstr("node 'work': the edge at line 8, when 'result.n / "
                                        "result.d > 1': "));
  EXPECT_EQ(outcome.error->error_class, ErrorClass::kValidation);
  EXPECT_EQ(outcome.error->exit_code, kExitBadInput);
}

TEST(RunEnds, WhenANodesInputWasNeverWritten) {
  World world(R"({"nodes": {"t/need": {"in": [{"name": "text", "type": "string"}],
                                       "visits": [[{"done": {}}]]},
                            "t/give": {"out": [{"name": "text", "type": "string"}],
                                       "visits": [[{"done": {}}]]}}})");
  const std::string yaml = R"(kernel_evolve: 1
name: missing
start: give
nodes:
  give: {uses: t/give, next: need}
  need: {uses: t/need, next: end}
)";
  const RunOutcome outcome = RunGraph(yaml, world).outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_THAT(outcome.reason, HasSubstr("node 'need'"));
  EXPECT_THAT(outcome.reason, HasSubstr("'text'"));
  EXPECT_EQ(outcome.reason.find("node 'need': node 'need'"), std::string::npos);
}

// --- Budgets ---

TEST(Budgets, OfStepsStopTheNodeThatWouldBeOneTooMany) {
  World world(Script(R"([[{"done": {"out": {"sum": 1}}}]])", kProvider));
  const RunOutcome outcome = RunGraph(kAgain, world, [](RunSpec& spec, graph::Graph&) {
                               spec.budget_override.steps = 3;
                             }).outcome;
  EXPECT_EQ(outcome.status, "budget");
  EXPECT_EQ(outcome.reason, "the budget of 3 steps is spent");
  EXPECT_EQ(outcome.state, J(R"({"sum": 3})")) << "the partial result is kept";
  EXPECT_EQ(outcome.usage["steps"], Json(3));
  EXPECT_EQ(outcome.error->error_class, ErrorClass::kBudget);
}

TEST(Budgets, OfTokensCountWhatTheProviderSays) {
  World world(Script("[[" + kAsk + R"(, {"done": {"out": {"sum": 1}}}]])", kProvider));
  const RunOutcome outcome = RunGraph(kAgain, world, [](RunSpec& spec, graph::Graph&) {
                               spec.budget_override.tokens = 240;
                             }).outcome;
  EXPECT_EQ(outcome.status, "budget");
  EXPECT_EQ(outcome.usage["tokens"], Json(200)) << "100 a call; the next is taken to need 49";
  EXPECT_EQ(outcome.usage["llm_calls"], Json(2));
  EXPECT_THAT(outcome.reason, HasSubstr("240 tokens"));
}

TEST(Budgets, OfCostUseTheProfilesPrice) {
  World world(Script("[[" + kAsk + R"(, {"done": {"out": {"sum": 1}}}]])", kProvider));
  const RunOutcome outcome = RunGraph(kAgain, world, [](RunSpec& spec, graph::Graph&) {
                               spec.models["author"].params =
                                   J(R"({"price": {"input": 1, "output": 2, "unit": "100"}})");
                               spec.budget_override.cost = 3.0;
                             }).outcome;
  EXPECT_EQ(outcome.status, "budget");
  EXPECT_DOUBLE_EQ(outcome.usage.Number("cost"), 2.8);  // 0.6 + 0.8 a call
}

TEST(Budgets, ACompileCostsNoEvaluation) {
  const std::string verdict = R"([{"done": {"verdict": {"asked": "compile", "stage": "done",
      "ok": true, "correct": null, "reason": ""}}}])";
  World world(Script(R"([[{"effects": [{"id": "v", "kind": "evaluate", "asked": "compile",
      "candidate": {"code": "x"}}]}, {"done": {}}]])",
                     R"(, "evaluators": {"fake": {"codes": {"x": )" + verdict + "}}}" + kProvider));
  const RunOutcome outcome = RunGraph(kOnce, world, [](RunSpec& spec, graph::Graph&) {
                               spec.budget_override.evaluations = 0;
                             }).outcome;
  EXPECT_EQ(outcome.status, "done") << outcome.reason;
  EXPECT_EQ(outcome.usage["evaluations"], Json(0));
}

TEST(Evaluations, AFullOneIsToldWhatTheTrialCompileFound) {
  const auto judged = [](const std::string& asked) {
    return R"({"asked": ")" + asked +
           R"(", "stage": "done", "ok": true, "correct": null, "reason": "", "recording": 5})";
  };
  const auto ask = [](const std::string& asked, const std::string& code) {
    return R"({"effects": [{"id": "v", "kind": "evaluate", "asked": ")" + asked +
           R"(", "candidate": {"code": ")" + code + R"("}}]})";
  };
  World world(Script("[[" + ask("compile", "x") + ", " + ask("full", "x") + ", " +
                         ask("full", "y") + R"(, {"done": {}}]])",
                     R"(, "evaluators": {"fake": {"codes": {"x": [{"done": {"verdict": )" +
                         judged("compile") + R"(}}], "y": [{"done": {"verdict": )" +
                         judged("full") + "}}]}}}" + kProvider));
  ASSERT_EQ(RunGraph(kOnce, world).outcome.status, "done");
  EXPECT_TRUE(world.trace.Has("step fake compile c1"));
  EXPECT_TRUE(world.trace.Has("step fake full c1 compiled={")) << world.trace.text();
  EXPECT_TRUE(world.trace.Has("\"recording\":5"));
  EXPECT_FALSE(world.trace.Has("step fake full c2 compiled"));
  EXPECT_TRUE(world.trace.Has("step fake full c2"));
}

TEST(Budgets, AStepThatAsksForMoreThanIsLeftSpendsNothing) {
  const std::string two = R"({"effects": [
      {"id": "a", "kind": "llm_complete", "model": "author",
       "request": {"messages": [{"role": "user", "content": "1"}]}},
      {"id": "b", "kind": "llm_complete", "model": "author",
       "request": {"messages": [{"role": "user", "content": "2"}]}}]})";
  World world(Script("[[" + two + R"(, {"done": {}}]])", kProvider));
  const Ran ran = RunGraph(
      kOnce, world, [](RunSpec& spec, graph::Graph&) { spec.budget_override.llm_calls = 1; });
  EXPECT_EQ(ran.outcome.status, "budget");
  EXPECT_EQ(ran.trace.find("effect_started"), std::string::npos);
}

TEST(Budgets, WallTimeEndsACallThatHangs) {
  World world(Script(R"([[{"effects": [{"id": "w", "kind": "worker_call", "module": "m",
      "function": "f", "request": {}}]}, {"done": {}}]])",
                     R"(, "worker": {"m.f": "hang"})" + kProvider));
  const RunOutcome outcome = RunGraph(kOnce, world, [](RunSpec& spec, graph::Graph&) {
                               spec.budget_override.wall_s = 30;
                             }).outcome;
  EXPECT_EQ(outcome.status, "budget");
  EXPECT_EQ(outcome.reason, "the budget of 30.0 s wall time is spent");
  EXPECT_EQ(outcome.usage["wall"], Json(30.0));
}

TEST(Budgets, WallTimeEndsALoopOfQuickSteps) {
  World world(Script(R"([[{"effects": [{"id": "t", "kind": "now"}]},
                          {"do": {"advance": 10}, "done": {"out": {"sum": 1}}}]])",
                     kProvider));
  const RunOutcome outcome = RunGraph(kAgain, world, [](RunSpec& spec, graph::Graph&) {
                               spec.budget_override.wall_s = 25;
                             }).outcome;
  EXPECT_EQ(outcome.status, "budget");
  EXPECT_EQ(outcome.state, J(R"({"sum": 3})"));
}

TEST(Budgets, UsageThatANodeReportsCounts) {
  World world(Script(R"([[{"do": {"usage": {"input_tokens": 5, "output_tokens": 6, "cost": 0.5}},
                           "done": {}}]])",
                     kProvider));
  const RunOutcome outcome = RunGraph(kOnce, world).outcome;
  EXPECT_EQ(outcome.usage["tokens"], Json(11));
  EXPECT_EQ(outcome.usage["cost"], Json(0.5));
}

// --- Interrupts ---

TEST(Interrupt, EndsACallThatHangs) {
  World world(Script(R"([[{"do": {"interrupt": true}, "effects": [{"id": "w", "kind": "worker_call",
      "module": "m", "function": "f", "request": {}}]}, {"done": {}}]])",
                     R"(, "worker": {"m.f": "hang"})" + kProvider));
  const Ran ran = RunGraph(kOnce, world);
  EXPECT_EQ(ran.outcome.status, "interrupted");
  EXPECT_FALSE(ran.outcome.error);
  EXPECT_THAT(ran.trace, HasSubstr("effect_finished work#1.1 worker_call f cancelled"));
}

TEST(Interrupt, EndsASleepAtOnce) {
  World world(Script(R"([[{"do": {"interrupt": true}, "effects": [{"id": "s", "kind": "sleep",
      "seconds": 1e6}]}, {"done": {}}]])",
                     kProvider));
  const RunOutcome outcome = RunGraph(kOnce, world).outcome;
  EXPECT_EQ(outcome.status, "interrupted");
  EXPECT_EQ(outcome.usage["wall"], Json(0.0));
}

TEST(Interrupt, IsToldToAStepThatBlocks) {
  World world(Script(R"([[{"do": {"interrupt": true, "wait_until_cancelled": true},
                           "done": {"out": {"sum": 1}}}]])",
                     kProvider, R"("blocking": true, )"));
  const RunOutcome outcome = RunGraph(kOnce, world).outcome;
  EXPECT_EQ(outcome.status, "interrupted");
  EXPECT_EQ(outcome.state, Json::Obj()) << "what comes after the end changes nothing";
}

TEST(Interrupt, WhatWasBoughtMeanwhileIsStillWrittenDown) {
  World world(Script("[[" + kAsk + R"(, {"done": {}}]])",
                     R"(, "providers": {"fake": {"blocking": true, "calls": [[
      {"do": {"interrupt": true, "wait_until_cancelled": true},
       "done": {"response": {"text": "paid for"}}}]]}})"));
  const graph::Graph graph = Load(kOnce, world);
  const TempFolder folder;
  const RunOutcome outcome = RunIn(SpecFor(graph, world, folder.path()), world);
  EXPECT_EQ(outcome.status, "interrupted");
  const auto journal = Journal::Read(folder.path() / kJournalName);
  ASSERT_TRUE(journal.ok());
  ASSERT_EQ(journal->outside.size(), 2U);
  EXPECT_EQ(journal->outside[0].kind, "interrupted");
  EXPECT_EQ(journal->outside[1].outcome["ok"]["text"], Json("paid for"));
}

// --- Before the run ---

struct Mistake {
  const char* name;
  std::function<void(RunSpec&, graph::Graph&)> make;
  const char* sentence;
};

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreFoundBeforeAnythingIsSpent) {
  World world(
      Script("[[" + kAsk + R"(, {"done": {}}]])", kProvider + R"(, "evaluators": {"fake": {}})"));
  graph::Graph graph = Load(kOnce, world);
  const TempFolder folder;
  RunSpec spec = SpecFor(graph, world, folder.path() / "run");
  GetParam().make(spec, graph);
  const RunOutcome outcome = RunIn(spec, world);
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_THAT(outcome.reason, HasSubstr(GetParam().sentence));
  EXPECT_EQ(outcome.error->exit_code, kExitBadInput);
  EXPECT_EQ(world.trace.text(), "") << "the run began";
  EXPECT_FALSE(std::filesystem::exists(spec.run_dir / kJournalName))
      << "the folder could not be used again";
}

INSTANTIATE_TEST_SUITE_P(
    All, Mistakes,
    ::testing::Values(
        Mistake{"unbound_model", [](RunSpec& s, graph::Graph&) { s.models.clear(); },
                "the graph's model 'author' is bound to nothing"},
        Mistake{"unknown_provider",
                [](RunSpec& s, graph::Graph&) { s.models["author"].provider = "none"; },
                "the provider 'none', which no plugin offers"},
        Mistake{"capability",
                [](RunSpec&, graph::Graph& g) { g.models["author"].needs = {"tools"}; },
                "the model 'author' needs 'tools', which the provider 'fake' cannot do"},
        Mistake{"unknown_evaluator",
                [](RunSpec& s, graph::Graph&) { s.evaluator.evaluator = "none"; },
                "no plugin offers an evaluator called 'none'"},
        Mistake{"unknown_input", [](RunSpec& s, graph::Graph&) { s.inputs["speed"] = 1; },
                "no input 'speed'"},
        Mistake{"price",
                [](RunSpec& s, graph::Graph&) { s.models["author"].params["price"] = "cheap"; },
                "the price of the model 'author' is wrong"},
        Mistake{"seed", [](RunSpec& s, graph::Graph&) { s.seed = uint64_t{1} << 53U; },
                "must be below 2^53"},
        Mistake{"node_type", [](RunSpec&, graph::Graph& g) { g.nodes[0].uses = "t/none"; },
                "uses 't/none', which no plugin offers"}),
    [](const auto& each) { return each.param.name; });

TEST(Trial, ANodeThatRefusesItsParametersEndsTheRunBeforeItBegins) {
  World world(Script(R"([[{"done": {}}]])", kProvider, R"("refuse": "no such template", )"));
  const Ran ran = RunGraph(kOnce, world);
  EXPECT_EQ(ran.outcome.reason, "node 'work' (line 7): no such template");
  EXPECT_EQ(ran.trace, "");
}

TEST(Trial, AProviderThatRefusesItsParametersEndsTheRunBeforeItBegins) {
  World world(Script(R"([[{"done": {}}]])", R"(, "providers": {"fake": {"refuse": "no key"}})"));
  EXPECT_EQ(RunGraph(kOnce, world).outcome.reason, "the model 'author': no key");
}

TEST(Trial, AFolderThatHoldsARunIsRefusedAndItsJournalStays) {
  World world(Script(R"([[{"done": {}}]])", kProvider));
  const graph::Graph graph = Load(kOnce, world);
  const TempFolder folder;
  const RunSpec spec = SpecFor(graph, world, folder.path());
  ASSERT_EQ(RunIn(spec, world).status, "done");
  const std::string before = *ReadFile(folder.path() / kJournalName);
  const RunOutcome again = RunIn(spec, world);
  EXPECT_EQ(again.status, "failed");
  EXPECT_THAT(again.reason, HasSubstr("already holds a run"));
  EXPECT_EQ(again.error->exit_code, kExitBadInput);
  EXPECT_EQ(*ReadFile(folder.path() / kJournalName), before);
}

// --- What plugins and the worker get ---

TEST(WorkerCalls, CarryTheCallersPythonFolderScratchAndDeadline) {
  World world(Script(R"([[{"effects": [
      {"id": "w", "kind": "worker_call", "module": "m", "function": "f", "session": "key",
       "request": {"x": 1}, "deadline_s": 5, "limits": {"memory_mb": 9}},
      {"id": "v", "kind": "worker_call", "module": "m", "function": "g", "session": null,
       "request": {}}]}, {"done": {}}]])",
                     R"(, "worker": {"m.f": {"ok": {}}, "m.g": {"ok": {}}})" + kProvider));
  const graph::Graph graph = Load(kOnce, world);
  const TempFolder folder;
  ASSERT_EQ(RunIn(SpecFor(graph, world, folder.path() / "run"), world).status, "done");
  const WorkerCall& call = world.worker_calls.at("m.f");
  ASSERT_FALSE(call.path.empty());
  EXPECT_EQ(call.path[0], "/plugins/scripted/python");
  EXPECT_EQ(call.session, "key");
  EXPECT_EQ(call.request, J(R"({"x": 1})"));
  EXPECT_EQ(call.deadline_s, 5);
  EXPECT_EQ(call.limits, J(R"({"memory_mb": 9})"));
  EXPECT_EQ(call.scratch, folder.path() / "run/scratch");
  EXPECT_TRUE(std::filesystem::is_directory(call.scratch));
  EXPECT_EQ(world.worker_calls.at("m.g").session, "");
  EXPECT_EQ(world.worker_calls.at("m.g").deadline_s, 120);
}

TEST(Outcome, HandsOverTheBestVerifiedCandidate) {
  const auto verdict = [](const char* speedup, const char* correct) {
    return std::string(R"([{"done": {"verdict": {"asked": "full", "stage": "done", "ok": true,
        "reason": "", "correct": )") +
           correct + R"(, "metrics": {"speedup": )" + speedup + "}}}}]";
  };
  World world(Script(R"([[{"effects": [
      {"id": "a", "kind": "evaluate", "asked": "full", "candidate": {"code": "slow"}},
      {"id": "b", "kind": "evaluate", "asked": "full", "candidate": {"code": "fast"}},
      {"id": "c", "kind": "evaluate", "asked": "full", "candidate": {"code": "wrong"}}]},
      {"error": {"class": "internal", "message": "lost"}}]])",
                     R"(, "evaluators": {"fake": {"codes": {"slow": )" + verdict("1.5", "true") +
                         R"(, "fast": )" + verdict("3", "true") + R"(, "wrong": )" +
                         verdict("9", "false") + "}}}" + kProvider));
  const RunOutcome outcome = RunGraph(kOnce, world).outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_EQ(outcome.best["id"], Json("c2")) << "also of a run that failed";
  EXPECT_EQ(outcome.best["speedup"], Json(3));
  EXPECT_EQ(outcome.archive.size(), 3U);
  EXPECT_EQ(outcome.usage["evaluations"], Json(3));
}

}  // namespace
}  // namespace kernel_evolve::test
