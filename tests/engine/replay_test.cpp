// A run and its journal tell the same story: fed with what the journal holds, the reducer comes to
// the same state, however many threads the run had and however it ended.
#include "core/engine/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/support.hpp"

namespace kernel_evolve::test {
namespace {

using ::testing::HasSubstr;

constexpr char kGraph[] = R"(kernel_evolve: 1
name: search
models:
  author: {needs: []}
state:
  log: {type: array, merge: append}
start: write
nodes:
  write:
    uses: t/write
    next: judge
  judge:
    uses: t/judge
    next:
      - {when: visits.write < 6 && budget.used.wall < 1000.0, to: write, max_visits: 9}
      - {else: end}
)";

// Every kind of effect, two model calls at a time, plugins that block; `extra` goes into the second
// step of `write`.
std::string Script(const std::string& extra = "") {
  return R"({"nodes": {
    "t/write": {"blocking": true, "out": [{"name": "candidate", "type": "candidate"},
                                          {"name": "log", "type": "array"}],
      "visits": [[
        {"effects": [
          {"id": "a", "kind": "llm_complete", "model": "author",
           "request": {"messages": [{"role": "user", "content": "one"}]}},
          {"id": "b", "kind": "llm_complete", "model": "author",
           "request": {"messages": [{"role": "user", "content": "two"}]}},
          {"id": "r", "kind": "random", "count": 3}, {"id": "t", "kind": "now"},
          {"id": "s", "kind": "sleep", "seconds": 2},
          {"id": "w", "kind": "worker_call", "module": "m", "function": "f", "request": {}}]},
        {)" +
         extra + R"("done": {"out": {"candidate": {"id": "c1", "code": "x"},
                                          "log": ["wrote"]}}}]]},
    "t/judge": {"in": [{"name": "candidate", "type": "candidate"}],
                "out": [{"name": "log", "type": "array"}],
      "visits": [
        [{"effects": [{"id": "v", "kind": "evaluate", "asked": "full",
                       "candidate": {"code": "x"}}]}, {"done": {"out": {"log": [1]}}}],
        [{"effects": [{"id": "v", "kind": "evaluate", "asked": "full",
                       "candidate": {"code": "y"}}]}, {"done": {"out": {"log": [2]}}}]]}},
   "providers": {"fake": {"blocking": true, "calls": [
      [{"effects": [{"id": "w", "kind": "worker_call", "module": "m", "function": "f",
                     "request": {}}]},
       {"done": {"response": {"text": "hi", "usage": {"input_tokens": 9, "output_tokens": 1}}}}],
      [{"error": {"class": "rate_limit", "message": "later"}}],
      [{"done": {"response": {"text": "ho", "usage": {"input_tokens": 3, "output_tokens": 2}}}}]]}},
   "evaluators": {"fake": {"blocking": true, "codes": {
      "x": [{"effects": [{"id": "w", "kind": "worker_call", "module": "m", "function": "f",
                          "request": {}}]},
            {"done": {"verdict": {"asked": "full", "stage": "done", "ok": true, "correct": true,
                                  "reason": "", "metrics": {"speedup": 1.5}}}}],
      "y": [{"done": {"verdict": {"asked": "full", "stage": "compile", "ok": false,
                                  "correct": null, "reason": "no"}}}]}}},
   "worker": {"m.f": {"ok": {"x": 1}}}})";
}

struct Told {
  RunOutcome outcome;
  JournalContents journal;
};

Told RunOnce(const std::string& script, int threads, bool worker_threads = false,
             const graph::Budget& budget = {}) {
  World world(script);
  world.answer_on_threads = worker_threads;
  const graph::Graph graph = Load(kGraph, world);
  const TempFolder folder;
  RunSpec spec = SpecFor(graph, world, folder.path() / "run");
  spec.threads = threads;
  spec.budget_override = budget;
  for (auto& [alias, model] : spec.models) {
    model.params["price"] = J(R"({"input": 0.1, "output": 0.7})");
  }
  Told told;
  told.outcome = RunIn(spec, world);
  auto journal = Journal::Read(spec.run_dir / kJournalName);
  EXPECT_TRUE(journal.ok()) << journal.error().message;
  if (journal.ok()) told.journal = std::move(*journal);
  return told;
}

// The state that the journal leads to in a fresh world.
Result<State> Replayed(const std::string& script, const std::vector<Recorded>& recorded,
                       const graph::Budget& budget = {}, World* seen = nullptr) {
  World own(script);
  World& world = seen != nullptr ? *seen : own;
  const graph::Graph graph = Load(kGraph, world);
  RunSpec spec = SpecFor(graph, world, "/nowhere/run");
  spec.budget_override = budget;
  for (auto& [alias, model] : spec.models) {
    model.params["price"] = J(R"({"input": 0.1, "output": 0.7})");
  }
  return ReplayJournal(spec, world, world.clock, recorded);
}

void ExpectReplays(const Told& told, const std::string& script, const graph::Budget& budget = {}) {
  const Result<State> state = Replayed(script, told.journal.outside, budget);
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_EQ(RunStatusName(state->status), told.outcome.status);
  EXPECT_EQ(state->channels.Dump(), told.outcome.state.Dump());
  EXPECT_EQ(state->Hash(), told.journal.outcome.Text("state_hash"));
}

TEST(Replay, OfARunThatEndedComesToTheSameState) {
  const Told told = RunOnce(Script(), 4);
  EXPECT_EQ(told.outcome.status, "done") << told.outcome.reason;
  EXPECT_EQ(told.outcome.usage["llm_calls"], Json(12));
  EXPECT_EQ(told.outcome.usage["evaluations"], Json(2)) << "four more were duplicates";
  ExpectReplays(told, Script());
}

TEST(Replay, SpendsNothing) {
  const Told told = RunOnce(Script(), 1);
  World world(Script());
  ASSERT_TRUE(Replayed(Script(), told.journal.outside, {}, &world).ok());
  EXPECT_EQ(world.trace.Count("step fake"), 0) << "a provider or an evaluator was asked";
  EXPECT_TRUE(world.worker_calls.empty());
}

TEST(Replay, OfARunThatABudgetEndedComesToTheSameState) {
  graph::Budget budget;
  budget.llm_calls = 5;
  const Told told = RunOnce(Script(), 2, false, budget);
  EXPECT_EQ(told.outcome.status, "budget");
  ExpectReplays(told, Script(), budget);
}

TEST(Replay, OfARunThatTheClockEndedComesToTheSameState) {
  const std::string slow = Script(R"("do": {"advance": 3}, )");
  for (const double wall : {1.0, 4.0, 6.5, 11.0}) {
    graph::Budget budget;
    budget.wall_s = wall;
    const Told told = RunOnce(slow, 2, false, budget);
    EXPECT_EQ(told.outcome.status, "budget") << wall;
    ExpectReplays(told, slow, budget);
  }
}

TEST(Replay, OfARunThatWasInterruptedComesToTheSameState) {
  const std::string script = Script(R"("do": {"interrupt": true}, )");
  const Told told = RunOnce(script, 2);
  EXPECT_EQ(told.outcome.status, "interrupted");
  ExpectReplays(told, script);
}

TEST(Replay, OfEveryBeginningComesToWhereTheRunWasThen) {
  const Told told = RunOnce(Script(), 4);
  std::string before;
  for (size_t length = 0; length < told.journal.outside.size(); ++length) {
    const std::vector<Recorded> beginning(
        told.journal.outside.begin(),
        told.journal.outside.begin() + static_cast<std::ptrdiff_t>(length));
    const Result<State> state = Replayed(Script(), beginning);
    ASSERT_TRUE(state.ok()) << state.error().message;
    EXPECT_EQ(state->status, RunStatus::kRunning) << length;
    EXPECT_EQ(state->active.size(), 1U) << "waiting for what was in flight";
    EXPECT_NE(state->Hash(), before);
    before = state->Hash();
  }
}

TEST(Replay, ANodeThatAsksForSomethingElseThanThenIsFound) {
  const Told told = RunOnce(Script(), 1);
  std::string changed = Script();
  changed.replace(changed.find("\"content\": \"two\""), 16, "\"content\": \"2wo\"");
  const Result<State> state = Replayed(changed, told.journal.outside);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().exit_code, kExitBadInput);
  EXPECT_THAT(state.error().message, HasSubstr("write#1.2 (llm_complete)"));
  EXPECT_THAT(state.error().message, HasSubstr("has changed"));
}

// How long a model took to answer is of the outside.
Json WithoutLatency(Json usage) {
  for (auto& [alias, use] : usage["models"].object()) {
    use.object().erase("seconds");
    use.object().erase("longest_s");
  }
  return usage;
}

class ThreadCounts : public ::testing::TestWithParam<int> {};

TEST_P(ThreadCounts, ChangeNothing) {
  const Told one = RunOnce(Script(), 1);
  const Told many = RunOnce(Script(), GetParam(), /*worker_threads=*/true);
  EXPECT_EQ(many.outcome.status, "done");
  EXPECT_EQ(many.outcome.state.Dump(), one.outcome.state.Dump());
  EXPECT_EQ(many.outcome.archive.Dump(), one.outcome.archive.Dump());
  EXPECT_EQ(many.outcome.best.Dump(), one.outcome.best.Dump());
  EXPECT_EQ(WithoutLatency(many.outcome.usage).Dump(), WithoutLatency(one.outcome.usage).Dump())
      << "to the last bit of the cost";
  ExpectReplays(many, Script());
}

INSTANTIATE_TEST_SUITE_P(Sweep, ThreadCounts, ::testing::Values(1, 2, 8, 32));

TEST(Trace, NamesEveryNodeAndEffectAndIsWrittenBeforeControlEntersAPlugin) {
  const Told told = RunOnce(Script(), 2);
  std::vector<std::string> events;
  for (const Json& line : told.journal.trace) events.push_back(line.Text("event"));
  EXPECT_EQ(std::count(events.begin(), events.end(), "node_started"), 12);
  EXPECT_EQ(std::count(events.begin(), events.end(), "node_finished"), 12);
  EXPECT_EQ(events.front(), "run_started");
  EXPECT_EQ(events.back(), "run_finished");
  EXPECT_EQ(std::count(events.begin(), events.end(), "effect_started"),
            std::count(events.begin(), events.end(), "effect_finished"));
  EXPECT_EQ(std::count(events.begin(), events.end(), "effect_reused"), 4);
}

TEST(Meta, SaysWhatRanSoThatAChangeCanBeSeenLater) {
  const Told told = RunOnce(Script(), 1);
  const Json& meta = told.journal.meta;
  EXPECT_EQ(meta["format"], Json(kJournalFormat));
  EXPECT_EQ(meta["seed"], Json(7));
  EXPECT_EQ(meta["graph"].Text("source"), kGraph);
  EXPECT_FALSE(meta["graph"].Text("hash").empty());
  EXPECT_EQ(meta["plugins"], J(R"([{"id": "scripted", "version": "1.0.0", "hash": "00"}])"));
  EXPECT_EQ(meta["models"], J(R"({"author": "fake"})"));
  EXPECT_EQ(meta["evaluator"], Json("fake"));
  EXPECT_TRUE(meta.contains("inputs") && meta.contains("task_hash"));
}

}  // namespace
}  // namespace kernel_evolve::test
