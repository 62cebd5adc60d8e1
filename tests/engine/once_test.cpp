// One candidate without a run.
#include <gtest/gtest.h>

#include "core/engine/once.hpp"
#include "tests/engine/support.hpp"

namespace kernel_evolve::test {
namespace {

Result<Json> Evaluate(World& world, const std::filesystem::path& scratch) {
  return EvaluateOnce({"fake", Json::Obj()}, J(R"({"source": "class Model: pass"})"),
                      J(R"({"code": "x"})"), "full", 3, world.outside(), world, scratch,
                      world.interrupted);
}

TEST(EvaluateOnce, ReturnsTheVerdict) {
  World world(R"({"evaluators": {"fake": {"codes": {"x": [
      {"effects": [{"id": "w", "kind": "worker_call", "module": "m", "function": "f",
                    "request": {}}, {"id": "r", "kind": "random", "count": 1}]},
      {"done": {"verdict": {"asked": "full", "stage": "done", "ok": true, "correct": true,
                            "reason": "fine"}}}]}}},
      "worker": {"m.f": {"ok": {}}}})");
  const TempFolder folder;
  const Result<Json> verdict = Evaluate(world, folder.path() / "new/scratch");
  ASSERT_TRUE(verdict.ok()) << verdict.error().message;
  EXPECT_EQ(verdict->Text("reason"), "fine");
  // A folder of its own below the scratch folder: no call reaches what another one wrote.
  EXPECT_EQ(world.worker_calls.at("m.f").scratch.parent_path(),
            folder.path() / "new/scratch/calls");
  EXPECT_TRUE(world.trace.Has("progress"));
}

TEST(EvaluateOnce, AnErrorKeepsItsClassAndSentence) {
  World world(R"({"evaluators": {"fake": {"codes": {"x": [
      {"error": {"class": "validation", "message": "the task has no Model"}}]}}}})");
  const TempFolder folder;
  const Result<Json> verdict = Evaluate(world, folder.path());
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().message, "the task has no Model");
  EXPECT_EQ(verdict.error().exit_code, kExitBadInput);
}

TEST(EvaluateOnce, CanBeInterrupted) {
  World world(R"({"evaluators": {"fake": {"codes": {"x": [
      {"do": {"interrupt": true}, "effects": [{"id": "w", "kind": "worker_call", "module": "m",
       "function": "f", "request": {}}]},
      {"error": {"class": "cancelled", "message": "stopped"}}]}}}, "worker": {"m.f": "hang"}})");
  const TempFolder folder;
  const Result<Json> verdict = Evaluate(world, folder.path());
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().error_class, ErrorClass::kCancelled);
  EXPECT_EQ(verdict.error().exit_code, kExitInterrupted);
}

}  // namespace
}  // namespace kernel_evolve::test
