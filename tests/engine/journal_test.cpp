#include "core/engine/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/engine/scheduler.hpp"
#include "tests/engine/support.hpp"

namespace kernel_evolve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Recorded Result1(int64_t sequence, Json value = "answer") {
  Recorded recorded;
  recorded.kind = "llm_complete";
  recorded.key = {"ask", 1, 1, sequence, "hash"};
  recorded.effect = J(R"({"id": "a", "kind": "llm_complete", "model": "author"})");
  recorded.outcome = Json::Obj({{"ok", std::move(value)}});
  recorded.used = {0, 0, 0, 12, 0.1};
  recorded.elapsed_s = 1.25;
  return recorded;
}

std::unique_ptr<Journal> Create(const fs::path& file, JournalOptions options = {}) {
  auto journal = Journal::Create(file, J(R"({"seed": 7})"), options);
  EXPECT_TRUE(journal.ok()) << journal.error().message;
  return journal.ok() ? std::move(*journal) : nullptr;
}

JournalContents Read(const fs::path& file) {
  Result<JournalContents> contents = Journal::Read(file);
  EXPECT_TRUE(contents.ok()) << contents.error().message;
  return contents.ok() ? std::move(*contents) : JournalContents();
}

TEST(Journal, GivesBackWhatItWasGivenInOrder) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  {
    const auto journal = Create(file);
    ASSERT_TRUE(journal->Record(Result1(2), true).ok());
    ASSERT_TRUE(journal->Record(Result1(1), false).ok());
    journal->Trace(0.5, J(R"({"event": "node_started"})"));
    ASSERT_TRUE(journal->Commit().ok());
    ASSERT_TRUE(journal->Finish(J(R"({"status": "done"})")).ok());
  }
  const JournalContents contents = Read(file);
  EXPECT_EQ(contents.meta, J(R"({"format": 1, "seed": 7})"));
  EXPECT_EQ(contents.outcome, J(R"({"status": "done"})"));
  ASSERT_EQ(contents.outside.size(), 2U);
  EXPECT_EQ(contents.outside[0].key.sequence, 2);
  const Recorded& second = contents.outside[1];
  EXPECT_EQ(second.key, Result1(1).key);
  EXPECT_EQ(second.effect, Result1(1).effect);
  EXPECT_EQ(second.outcome, Result1(1).outcome);
  EXPECT_EQ(second.used.ToJson(), Result1(1).used.ToJson());
  EXPECT_EQ(second.elapsed_s, 1.25);
  ASSERT_EQ(contents.trace.size(), 1U);
  EXPECT_EQ(contents.trace[0], J(R"({"event": "node_started", "at": 0.5})"));
}

TEST(Journal, KeepsCandidatesWithTheirVerdicts) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  const auto journal = Create(file);
  Archive archive;
  const std::string hash = archive.Add(J(R"({"code": "x"})")).source_hash;
  for (const char* asked : {"compile", "full"}) {
    archive.Record(hash, asked, Json::Obj({{"asked", asked}}));
    journal->Keep(*archive.Find(hash), asked);
  }
  ASSERT_TRUE(journal->Commit().ok());
  EXPECT_EQ(Json(Read(file).candidates), archive.ToJson());
}

TEST(Journal, WhatIsCommittedSurvivesAKilledProgram) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  const auto journal = Create(file);
  ASSERT_TRUE(journal->Record(Result1(1), false).ok());
  journal->Trace(1, J(R"({"event": "never committed"})"));
  // The files as a kill would leave them: nothing is closed, nothing is tidied up.
  const fs::path left = folder.path() / "left.db";
  fs::copy_file(file, left);
  fs::copy_file(file.string() + "-wal", left.string() + "-wal");
  const JournalContents contents = Read(left);
  EXPECT_EQ(contents.outside.size(), 1U);
  EXPECT_TRUE(contents.trace.empty());
  EXPECT_TRUE(contents.outcome.is_null());
}

TEST(Journal, CanBeReadWhileTheRunGoesOn) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  const auto journal = Create(file);
  for (int64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(journal->Record(Result1(i), true).ok());
    EXPECT_EQ(Read(file).outside.size(), static_cast<size_t>(i));
  }
}

TEST(Journal, TheSameEffectIsNeverWrittenTwice) {
  const TempFolder folder;
  const auto journal = Create(folder.path() / kJournalName);
  ASSERT_TRUE(journal->Record(Result1(1), true).ok());
  EXPECT_FALSE(journal->Record(Result1(1, "another"), true).ok());
  EXPECT_TRUE(journal->Record(Result1(2), true).ok()) << "the refusal harmed what came after";
}

TEST(Journal, ASecondOneInTheSameFolderIsRefused) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  { Create(file); }
  const auto again = Journal::Create(file, Json::Obj());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().exit_code, kExitBadInput);
  EXPECT_THAT(again.error().message, HasSubstr("already holds a run"));
  EXPECT_EQ(Read(file).meta["seed"], Json(7));
}

TEST(Journal, AFileThatIsNoneIsRefusedInASentence) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  EXPECT_THAT(Journal::Read(file).error().message, HasSubstr("there is no journal"));
  std::ofstream(file) << "this is no database, and it is long enough to be taken for a header "
                         "of one if nobody looks: 0123456789012345678901234567890123456789";
  const auto contents = Journal::Read(file);
  ASSERT_FALSE(contents.ok());
  EXPECT_THAT(contents.error().message, HasSubstr("could not be read"));
}

TEST(FullDisk, LeavesEverythingThatWasCommitted) {
  const TempFolder folder;
  const fs::path file = folder.path() / kJournalName;
  JournalOptions options;
  options.max_pages = 60;
  const auto journal = Create(file, options);
  Status status;
  int64_t written = 0;
  while (status.ok() && written < 1000) {
    status = journal->Record(Result1(written + 1, std::string(3000, 'x')), written % 2 == 0);
    if (status.ok()) ++written;
  }
  ASSERT_FALSE(status.ok()) << "the disk never filled up";
  EXPECT_GT(written, 5);
  EXPECT_EQ(status.error().exit_code, kExitEnvironment);
  EXPECT_THAT(status.error().message, HasSubstr("the disk is full"));
  EXPECT_THAT(status.error().message, HasSubstr(file.string()));
  const JournalContents contents = Read(file);
  ASSERT_EQ(contents.outside.size(), static_cast<size_t>(written));
  for (int64_t i = 0; i < written; ++i) {
    EXPECT_EQ(contents.outside[static_cast<size_t>(i)].key.sequence, i + 1);
  }
}

TEST(FullDisk, ParksTheRunAndTheUnwrittenResultTakesNoEffect) {
  World world(R"({"nodes": {"t/work": {"out": [{"name": "sum", "type": "integer"}], "visits": [[
      {"effects": [{"id": "a", "kind": "llm_complete", "model": "author", "request":
        {"messages": [{"role": "user", "content": ")" +
              std::string(9000, 'x') + R"("}]}}]},
      {"done": {"out": {"sum": 1}}}]]}},
    "providers": {"fake": {"calls": [[{"done": {"response": {"text": "hi"}}}]]}}})");
  const graph::Graph graph = Load(R"(kernel_evolve: 1
name: long
models:
  author: {needs: []}
state:
  sum: {type: integer, merge: sum}
start: work
nodes:
  work: {uses: t/work, next: [{when: visits.work < 500, to: work, max_visits: 500}, {else: end}]}
)",
                                  world);
  const TempFolder folder;
  const RunSpec spec = SpecFor(graph, world, folder.path());
  const auto prepared = internal::Prepare(spec, world, world.clock);
  ASSERT_TRUE(prepared.ok());
  const fs::path file = folder.path() / kJournalName;
  JournalOptions options;
  options.max_pages = 100;
  const auto journal = Create(file, options);
  internal::Scheduler scheduler(prepared->plan, prepared->bindings, world.outside(), world,
                                journal.get(), 1, world.interrupted);
  const State state = scheduler.Run();
  EXPECT_EQ(state.status, RunStatus::kParked);
  ASSERT_TRUE(state.error);
  EXPECT_EQ(state.error->exit_code, kExitEnvironment);
  EXPECT_THAT(state.reason, HasSubstr("the disk is full"));
  const int64_t sum = state.channels.Integer("sum");
  EXPECT_GT(sum, 2);
  EXPECT_EQ(Read(file).outside.size(), static_cast<size_t>(sum))
      << "what took effect is what was written";
}

}  // namespace
}  // namespace kernel_evolve::test
