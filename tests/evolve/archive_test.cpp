#include "core/evolve/archive.hpp"

#include <gtest/gtest.h>

#include "core/evolve/source.hpp"
#include "core/evolve/verdict.hpp"

namespace kernel_evolve {
namespace {

Json Candidate(const std::string& code, const std::string& id = "") {
  Json candidate = Json::Obj({{"code", code}});
  if (!id.empty()) candidate["id"] = id;
  return candidate;
}

Json Verdict(Json speedup, bool weak = false) {
  return Json::Obj({{"stage", "done"},
                    {"asked", "full"},
                    {"ok", true},
                    {"correct", true},
                    {"weak", weak},
                    {"reason", "fine"},
                    {"metrics", Json::Obj({{"speedup", std::move(speedup)}})}});
}

void AddJudged(Archive* archive, const std::string& code, Json verdict) {
  const std::string hash = archive->Add(Candidate(code)).source_hash;
  archive->Record(hash, "full", std::move(verdict));
}

TEST(Archive, NumbersCandidatesInOrderOfAppearance) {
  Archive archive;
  EXPECT_EQ(archive.Add(Candidate("a")).id, "c1");
  EXPECT_EQ(archive.Add(Candidate("b")).id, "c2");
  EXPECT_EQ(archive.Add(Candidate("a  \n# same")).id, "c1");
  EXPECT_EQ(archive.entries().size(), 2U);
}

TEST(Archive, KeepsTheIdThatACandidateHasUnlessItIsTaken) {
  Archive archive;
  EXPECT_EQ(archive.Add(Candidate("a", "seed")).id, "seed");
  EXPECT_EQ(archive.Add(Candidate("b", "seed")).id, "c2");
  EXPECT_EQ(archive.Add(Candidate("c", "c4")).id, "c4");
  EXPECT_EQ(archive.Add(Candidate("d")).id, "c5");
}

TEST(Archive, AnswersForTheSameSourceAndTheSameRequestOnly) {
  Archive archive;
  const std::string hash = archive.Add(Candidate("a")).source_hash;
  EXPECT_EQ(archive.FindVerdict(hash, "full"), nullptr);
  archive.Record(hash, "full", Verdict(1.5));
  ASSERT_NE(archive.FindVerdict(SourceHash("# x\na"), "full"), nullptr);
  EXPECT_EQ(archive.FindVerdict(hash, "compile"), nullptr);
  EXPECT_EQ(archive.FindVerdict(SourceHash("b"), "full"), nullptr);
}

TEST(Archive, TheFirstVerdictStays) {
  Archive archive;
  const std::string hash = archive.Add(Candidate("a")).source_hash;
  archive.Record(hash, "full", Verdict(1.5));
  archive.Record(hash, "full", Verdict(9.0));
  EXPECT_EQ((*archive.FindVerdict(hash, "full"))["metrics"]["speedup"], Json(1.5));
}

TEST(Archive, BestIsTheHighestSpeedupAndTheEarlierOnATie) {
  Archive archive;
  EXPECT_TRUE(archive.Best().is_null());
  AddJudged(&archive, "a", Verdict(1.5));
  AddJudged(&archive, "b", Verdict(2.5));
  AddJudged(&archive, "c", Verdict(2.5));
  const Json best = archive.Best();
  EXPECT_EQ(best["id"], Json("c2"));
  EXPECT_EQ(best["speedup"], Json(2.5));
  EXPECT_EQ(best["verdict"]["stage"], Json("done"));
}

TEST(Archive, BestPassesOverWhatDoesNotCount) {
  Archive archive;
  Json wrong = Verdict(9.0);
  wrong["correct"] = false;
  Json unknown = Verdict(8.0);
  unknown["correct"] = Json();
  Json failed = Verdict(7.0);
  failed["ok"] = false;
  AddJudged(&archive, "wrong", wrong);
  AddJudged(&archive, "unknown", unknown);
  AddJudged(&archive, "failed", failed);
  AddJudged(&archive, "untimed", Verdict(Json()));
  EXPECT_TRUE(archive.Best().is_null());
  AddJudged(&archive, "slow", Verdict(0.5));
  EXPECT_EQ(archive.Best()["code"], Json("slow"));
}

TEST(Archive, AWeakVerdictComesAfterAnyOther) {
  Archive archive;
  AddJudged(&archive, "weak", Verdict(9.0, true));
  EXPECT_EQ(archive.Best()["code"], Json("weak"));
  AddJudged(&archive, "firm", Verdict(1.1));
  EXPECT_EQ(archive.Best()["code"], Json("firm"));
}

TEST(Verdict, ACompileOnlyVerdictHasNoSpeedupThatCounts) {
  Json verdict = Verdict(2.0);
  EXPECT_EQ(CountedSpeedup(verdict), 2.0);
  verdict["asked"] = "compile";
  EXPECT_EQ(CountedSpeedup(verdict), std::nullopt);
}

TEST(Verdict, MustHaveWhatEveryoneReads) {
  EXPECT_TRUE(CheckVerdict(Verdict(1.0)).ok());
  EXPECT_TRUE(CheckVerdict(Verdict(Json())).ok());
  const std::pair<const char*, Json> broken[] = {{"stage", 1},       {"asked", Json()},
                                                 {"reason", Json()}, {"ok", "yes"},
                                                 {"correct", 1},     {"metrics", Json::Arr({1})}};
  for (const auto& [member, value] : broken) {
    Json verdict = Verdict(1.0);
    verdict[member] = value;
    const Status checked = CheckVerdict(verdict);
    ASSERT_FALSE(checked.ok()) << member;
    EXPECT_EQ(checked.error().error_class, ErrorClass::kInvalidOutput);
  }
  EXPECT_FALSE(CheckVerdict(Verdict("fast")).ok());
  EXPECT_FALSE(CheckVerdict(Json("good")).ok());
}

}  // namespace
}  // namespace kernel_evolve
