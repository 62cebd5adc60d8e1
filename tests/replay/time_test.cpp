// Timed calls: what is timed, and what is seen of them.
#include "tests/replay/replay.hpp"

namespace kernel_evolve::testing {
namespace {

TEST_F(Replay, TimesTheStepsAndNothingElse) {
  Child child({{}, {{"FAKE_CUDA_LOG", (folder_ / "log").string()}}});
  (void)child.Read();
  json plan = Scale();
  plan["steps"].push_back(Launch({At(0), At(1), Value(kCount, 4)}));
  const json checked = Run(&child, plan);
  fs::remove(folder_ / "log");
  const json timed =
      child.Ask({{"op", "time"}, {"samples", 3}, {"seed", 7}, {"hashes", checked.at("hashes")}});
  EXPECT_EQ(timed.at("wrong"), 0);
  EXPECT_EQ(timed.at("outside"), json::array());
  ASSERT_EQ(timed.at("milliseconds").size(), 3);
  // The fake clock gives 1 us to a launch.
  for (const json& sample : timed.at("milliseconds")) {
    EXPECT_FLOAT_EQ(sample.get<float>(), 0.002F);
  }
  const std::vector<std::string> log = Log();
  ASSERT_GE(log.size(), 7);
  // Before each sample: caches and shared memory emptied, and a pause to queue behind.
  EXPECT_THAT(std::vector<std::string>(log.begin(), log.begin() + 7),
              ElementsAre("launch ke_read", "launch ke_scrub", "launch ke_pause", "event",
                          "launch scale", "launch scale", "event"));
}

TEST_F(Replay, TimedCallsThatGiveOtherResultsAreCounted) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  const auto wrong = [&](int works, bool fresh) {
    json plan = PlanOf("skip_after_first",
                       {At(0), At(1), Value(kBytes), Value(static_cast<uint64_t>(works))});
    plan["kernels"][0]["fresh"] = fresh;
    const json checked = Run(&child, plan);
    return child
        .Ask({{"op", "time"}, {"samples", 10}, {"seed", 7}, {"hashes", checked.at("hashes")}})
        .at("wrong");
  };
  EXPECT_EQ(wrong(100, false), 0);
  EXPECT_EQ(wrong(4, false), 7);  // one launch was the run's
  EXPECT_EQ(wrong(1, false), 10);
  EXPECT_EQ(wrong(1, true), 0);  // loaded anew, it remembers nothing
}

TEST_F(Replay, ATimedCallIsPoisonedAsTold) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  // The last byte stays as it was filled.
  const json checked = Run(&child, Copy(kBytes - 1), false, 60);
  const auto wrong = [&](const json& poisons) {
    return child
        .Ask({{"op", "time"},
              {"samples", 7},
              {"poisons", poisons},
              {"seed", 7},
              {"hashes", checked.at("hashes")}})
        .at("wrong");
  };
  EXPECT_EQ(wrong({60}), 0);
  EXPECT_EQ(wrong({61}), 7);
  EXPECT_EQ(wrong({60, 61, 62}), 4);  // in turn
}

TEST_F(Replay, ACheckedRunBeginsAsATimedOne) {
  Child child({{}, {{"FAKE_CUDA_LOG", (folder_ / "log").string()}}});
  (void)child.Read();
  ASSERT_EQ(Load(&child, Scale()).at("ok"), true);
  fs::remove(folder_ / "log");
  (void)child.Ask({{"op", "run"}});
  const std::vector<std::string> log = Log();
  ASSERT_GE(log.size(), 3);
  EXPECT_THAT(std::vector<std::string>(log.begin(), log.begin() + 3),
              ElementsAre("launch ke_read", "launch ke_scrub", "launch scale"));
}

TEST_F(Replay, TimedCallsAreComparedUnderTheirSeed) {
  Child child;
  (void)child.Read();
  const json checked = Run(&child, Copy());
  json request = {{"op", "time"}, {"samples", 2}, {"seed", 8}, {"hashes", checked.at("hashes")}};
  EXPECT_EQ(child.Ask(request).at("wrong"), 2);
  request["hashes"] = json::array();  // nothing to compare with
  EXPECT_EQ(child.Ask(request).at("wrong"), 0);
  request["hashes"] = {1, 2};
  EXPECT_EQ(child.Ask(request).at("wrong"), 2);
}

TEST_F(Replay, TheResultsOfATimedCallAreKept) {
  Child child;
  (void)child.Read();
  constexpr uint64_t kKept = 65536;
  for (const int keep : {0, 3, 4, 5}) {
    (void)Load(&child, PlanOf("skip_after_first", {At(0), At(1), Value(kBytes), Value(4)}));
    Fill(&child, 1);
    (void)child.Ask({{"op", "write"}, {"buffers", {0}}});
    std::memset(child.shared() + kKept, 0, kBytes);
    const json timed = child.Ask({{"op", "time"},
                                  {"samples", 6},
                                  {"poisons", {17}},
                                  {"keep", keep},
                                  {"fetch", {{1, kKept}}}});
    EXPECT_EQ(timed.at("milliseconds").size(), 6) << timed;
    const bool same = std::memcmp(child.shared(), child.shared() + kKept, kBytes) == 0;
    EXPECT_EQ(same, keep < 4) << keep;
    EXPECT_EQ(child.shared()[kKept] == 17, !same);
  }
}

TEST_F(Replay, WhatTheKeptCallChangesIsTold) {
  Child child;
  (void)child.Read();
  std::memset(child.shared(), 1, kBytes);
  for (const int keep : {0, 1, 2}) {
    (void)Load(&child, PlanOf("skip_after_first", {At(1), At(0), Value(kBytes), Value(2)}));
    const json timed = child.Ask({{"op", "time"}, {"samples", 3}, {"keep", keep}});
    EXPECT_EQ(timed.at("changed"), keep < 2 ? json::array({0}) : json::array());
  }
}

TEST_F(Replay, TimedCallsAreWatched) {
  Child child;
  (void)child.Read();
  (void)Load(&child, PlanOf("outside", {At(1), Value(kBytes)}));
  EXPECT_THAT(child.Ask({{"op", "time"}, {"samples", 2}}).at("outside"), ElementsAre(1));
  (void)Load(&child, PlanOf("outside", {At(0), Value(3)}));
  std::memset(child.shared(), 1, kBytes);
  (void)child.Ask({{"op", "write"}, {"buffers", {0}}});
  EXPECT_THAT(child.Ask({{"op", "time"}, {"samples", 2}}).at("changed"), ElementsAre(0));
}

TEST_F(Replay, WhatATimedCallLeavesBesideABufferIsSeenAndGone) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  const json hashes = Run(&child, Copy()).at("hashes");
  EXPECT_EQ(Load(&child, PlanOf("remember", {At(0), At(1), Value(kBytes), Value(5)})).at("ok"),
            true);
  const json timed = child.Ask({{"op", "time"}, {"samples", 5}, {"seed", 7}, {"hashes", hashes}});
  EXPECT_EQ(timed.at("wrong"), 4);
  EXPECT_THAT(timed.at("outside"), ElementsAre(1));
}

TEST_F(Replay, ARunAfterATimedOneIsAsBefore) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  const json checked = Run(&child, Scale());
  (void)child.Ask({{"op", "time"}, {"samples", 2}});
  EXPECT_EQ(child.Ask({{"op", "fetch"}, {"buffers", {{1, 0}}}}).at("ok"), true);
  EXPECT_EQ(child.Ask({{"op", "run"}, {"guard", true}, {"seed", 7}}), checked);
}

}  // namespace
}  // namespace kernel_evolve::testing
