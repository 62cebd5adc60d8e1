// Runs: their results, what is watched, and memory.
#include <set>

#include "tests/replay/replay.hpp"

namespace kernel_evolve::testing {
namespace {

// -- results --------------------------------------------------------------------------------------

TEST_F(Replay, RunsAPlanAndHandsOutItsResults) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  const json loaded = Load(&child, Scale());
  EXPECT_THAT(loaded.at("kernels"), ElementsAre(json({{"registers", 32},
                                                      {"local_bytes", 8},
                                                      {"static_shared_bytes", 16},
                                                      {"programs_per_sm", 16}})));
  for (const bool guard : {true, false}) {
    for (const float first : {1.0F, 50.0F}) {
      Fill(&child, first);
      EXPECT_EQ(child.Ask({{"op", "write"}, {"buffers", {0}}}).at("ok"), true);
      const json ran = child.Ask({{"op", "run"}, {"guard", guard}});
      EXPECT_EQ(ran.at("ok"), true) << ran;
      EXPECT_EQ(ran.at("changed"), json::array());
      EXPECT_EQ(ran.at("outside"), json::array());
      EXPECT_EQ(child.Ask({{"op", "fetch"}, {"buffers", {{1, 4096}}}}).at("ok"), true);
      for (int i = 0; i < kCount; ++i) {
        float value = 0;
        std::memcpy(&value, child.shared() + 4096 + static_cast<size_t>(i) * sizeof value, 4);
        ASSERT_EQ(value, 2 * (first + static_cast<float>(i)));
      }
    }
  }
}

TEST_F(Replay, HashesRepeatAndDependOnDataAndSeed) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  const json first = Run(&child, Scale());
  ASSERT_EQ(first.at("hashes").size(), 1);
  for (const bool guard : {true, false}) {
    const json again = child.Ask({{"op", "run"}, {"guard", guard}, {"poison", 9}, {"seed", 7}});
    EXPECT_EQ(again.at("hashes"), first.at("hashes"));
  }
  EXPECT_NE(child.Ask({{"op", "run"}, {"seed", 8}}).at("hashes"), first.at("hashes"));
  Fill(&child, 2);
  (void)child.Ask({{"op", "write"}, {"buffers", {0}}});
  EXPECT_NE(child.Ask({{"op", "run"}, {"seed", 7}}).at("hashes"), first.at("hashes"));
}

TEST_F(Replay, WhatNobodyWroteShowsThroughThePoison) {
  Child child;
  (void)child.Read();
  const json first = Run(&child, Copy(kBytes - 1), true, 255);
  const json second = child.Ask({{"op", "run"}, {"poison", 60}, {"seed", 7}});
  EXPECT_NE(first.at("hashes"), second.at("hashes"));
}

TEST_F(Replay, PassesGridBlockAndValues) {
  Child child;
  (void)child.Read();
  json plan = PlanOf("geometry", {At(1, 16)});
  plan["kernels"][0]["shared"] = 100000;  // more than a kernel has without asking
  plan["kernels"][0]["threads"] = 256;
  plan["steps"][0]["grid"] = {5, 6, 7};
  plan["kernels"].push_back(Kernel("value"));
  plan["steps"].push_back(Launch({At(1, 64), Value(0x0123456789ABCDEFU)}, 1));
  plan["steps"].push_back(Launch({At(1, 72), Value(0xFE, 1)}, 1));  // the rest is zero
  plan["steps"].push_back({{"fill", 17}, {"buffer", 1}, {"offset", 80}, {"bytes", 3}});
  EXPECT_EQ(Run(&child, plan).at("ok"), true);
  (void)child.Ask({{"op", "fetch"}, {"buffers", {{1, 0}}}});
  uint32_t seen[5];
  std::memcpy(seen, child.shared() + 16, sizeof seen);
  EXPECT_THAT(seen, ElementsAre(5, 6, 7, 256, 100000));
  uint64_t values[2];
  std::memcpy(values, child.shared() + 64, sizeof values);
  EXPECT_THAT(values, ElementsAre(0x0123456789ABCDEFU, 0xFEU));
  EXPECT_THAT(std::vector<int>(child.shared() + 79, child.shared() + 84),
              ElementsAre(0, 17, 17, 17, 255));
}

TEST_F(Replay, AnEmptyGridLaunchesNothing) {
  Child child;
  (void)child.Read();
  json plan = PlanOf("fault", {Value(700, 4)});
  for (int i = 0; i < 3; ++i) {
    plan["steps"][0]["grid"] = {2, 2, 2};
    plan["steps"][0]["grid"][i] = 0;
    EXPECT_EQ(Run(&child, plan).at("ok"), true);
  }
}

TEST_F(Replay, EmptyBuffersAreNoTrouble) {
  Child child;
  (void)child.Read();
  json plan = Scale();
  plan["buffers"].push_back({{"bytes", 0}, {"data", 0}});
  plan["buffers"].push_back({{"bytes", 0}});
  plan["results"].push_back({{"buffer", 3}, {"offset", 0}, {"bytes", 0}});
  plan["steps"].push_back({{"fill", 0}, {"buffer", 3}, {"offset", 0}, {"bytes", 0}});
  for (const bool guard : {true, false}) {
    const json ran = Run(&child, plan, guard);
    EXPECT_EQ(ran.at("ok"), true) << ran;
    EXPECT_EQ(ran.at("hashes")[1], 0);
  }
  EXPECT_EQ(child.Ask({{"op", "fetch"}, {"buffers", {{3, 0}}}}).at("ok"), true);
  json nothing = {{"buffers", json::array()},
                  {"kernels", json::array()},
                  {"steps", json::array()},
                  {"results", json::array()}};
  EXPECT_EQ(Run(&child, nothing).at("hashes"), json::array());
}

// -- what is watched ------------------------------------------------------------------------------

TEST_F(Replay, AChangedInputShows) {
  Child child;
  (void)child.Read();
  Fill(&child, 1);
  const json ran = Run(&child, PlanOf("scale", {At(0), At(0), Value(kCount, 4)}));
  EXPECT_THAT(ran.at("changed"), ElementsAre(0));
  // The next run starts from the first content again.
  const json again = child.Ask({{"op", "run"}, {"seed", 7}});
  EXPECT_EQ(again.at("hashes"), ran.at("hashes"));
}

TEST_F(Replay, AWriteBesideABufferShows) {
  Child child;
  (void)child.Read();
  const auto outside = [&](bool guard, int64_t offset) {
    return Run(&child, PlanOf("outside", {At(1), Value(static_cast<uint64_t>(offset))}), guard);
  };
  EXPECT_THAT(outside(true, -1).at("outside"), ElementsAre(1));       // before it
  EXPECT_THAT(outside(false, kBytes).at("outside"), ElementsAre(1));  // behind it
  EXPECT_THAT(outside(true, 0).at("outside"), ElementsAre());
  EXPECT_THAT(outside(true, kBytes - 1).at("outside"), ElementsAre());
}

TEST_F(Replay, AnAccessBehindTheEndFaults) {
  Child child;
  (void)child.Read();
  // A buffer's room is a multiple of 16 bytes; here it has none to spare.
  ASSERT_EQ(kBytes % 16, 0);
  const json answer = Run(&child, Copy(kBytes + 1));
  EXPECT_EQ(answer.at("kind"), "fault");
  EXPECT_EQ(answer.at("code"), 700);
}

TEST_F(Replay, AFaultThatLastsEndsTheProcess) {
  Child child;
  (void)child.Read();
  json plan = Copy();
  plan["kernels"].push_back(Kernel("fault"));
  plan["steps"].push_back(Launch({Value(700, 4)}, 1));
  plan["steps"].push_back(Launch({At(0), At(1), Value(4)}));
  const json answer = Run(&child, plan);
  EXPECT_EQ(answer, json({{"ok", false},
                          {"kind", "fault"},
                          {"step", 1},
                          {"code", 700},
                          {"lasting", true},
                          {"message", "running step 1: CUDA_ERROR_ILLEGAL_ADDRESS"}}));
  EXPECT_EQ(child.Read(), nullptr);
  EXPECT_EQ(child.Wait(), 4);
}

TEST_F(Replay, ARefusedLaunchCostsThatRunOnly) {
  Child child({{}, {{"FAKE_CUDA_FAIL", "cuLaunchKernel:701@3"}}});
  (void)child.Read();
  const json answer = Run(&child, Copy());
  EXPECT_EQ(answer, json({{"ok", false},
                          {"kind", "fault"},
                          {"step", 0},
                          {"code", 701},
                          {"lasting", false},
                          {"message", "launching copy: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}}));
  EXPECT_EQ(child.Ask({{"op", "describe"}}).at("ok"), true);
}

TEST_F(Replay, AFaultWhileTimedEndsTheProcess) {
  Child child;
  (void)child.Read();
  (void)Load(&child, PlanOf("fault", {Value(716, 4)}));
  const json answer = child.Ask({{"op", "time"}, {"samples", 3}});
  EXPECT_EQ(answer.at("code"), 716);
  EXPECT_EQ(answer.at("lasting"), true);
  EXPECT_EQ(answer.at("message"), "while timed: error 716");
  EXPECT_EQ(child.Wait(), 4);
}

TEST_F(Replay, WhatAKernelPrintsIsNoAnswer) {
  Child child;
  (void)child.Read();
  const json ran = Run(&child, PlanOf("print", {}));
  EXPECT_EQ(ran.value("changed", json()), json::array()) << ran;
  const json timed = child.Ask({{"op", "time"}, {"samples", 2}});
  EXPECT_EQ(timed.at("milliseconds").size(), 2) << timed;
}

// -- memory ---------------------------------------------------------------------------------------

TEST_F(Replay, TooLittleMemoryIsSaidAndLeavesNothingHalfMade) {
  Child child({{}, {{"FAKE_CUDA_MEMORY", std::to_string(2 << 20)}}});
  (void)child.Read();
  json large = Copy();
  large["buffers"].push_back({{"bytes", 1 << 20}});
  EXPECT_EQ(Run(&child, large, true).at("ok"), true);
  for (int i = 0; i < 2; ++i) {  // buffers of the other placement find no room
    const json answer = child.Ask({{"op", "run"}, {"guard", false}});
    EXPECT_EQ(answer, json({{"ok", false},
                            {"kind", "cuda"},
                            {"code", 2},
                            {"message", "allocating memory: CUDA_ERROR_OUT_OF_MEMORY"}}));
  }
  EXPECT_EQ(Load(&child, Scale()).at("ok"), true);
  EXPECT_EQ(child.Ask({{"op", "run"}}).at("ok"), true);
  EXPECT_EQ(child.Ask({{"op", "run"}, {"guard", false}}).at("ok"), true);
}

TEST_F(Replay, MemoryOfItsOwnLiesWhereNoKernelIsTold) {
  std::set<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    fs::remove(folder_ / "log");
    Child child({{}, {{"FAKE_CUDA_LOG", (folder_ / "log").string()}}});
    (void)child.Read();
    EXPECT_EQ(Run(&child, Scale()).at("ok"), true);
    std::vector<std::string> drawn;
    for (const std::string& line : Log(true)) {
      if (line != "reserve") drawn.push_back(line);
    }
    EXPECT_EQ(drawn.size(), 3);      // what empties the L2, the input's first content, the counts
    EXPECT_EQ(Log(true).size(), 5);  // and the kernel's own two buffers
    seen.insert(drawn.begin(), drawn.end());
  }
  EXPECT_EQ(seen.size(), 9);
}

TEST_F(Replay, AnAddressThatIsRefusedIsNotInsistedOn) {
  Child child({{}, {{"FAKE_CUDA_FAIL", "cuMemAddressReserve a wish:2"}}});
  (void)child.Read();
  EXPECT_EQ(Run(&child, Scale()).at("ok"), true);
}

TEST_F(Replay, LoadingFreesWhatWasLoaded) {
  Child child;
  (void)child.Read();
  uint64_t free_bytes = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Run(&child, Copy(), true).at("ok"), true);
    EXPECT_EQ(Run(&child, Copy(), false).at("ok"), true);
    const uint64_t now = child.Ask({{"op", "describe"}}).at("free_bytes");
    if (i == 0) free_bytes = now;
    EXPECT_EQ(now, free_bytes);
  }
}

TEST_F(Replay, AfterALoadThatFailedThereIsNothingToRun) {
  Child child;
  (void)child.Read();
  EXPECT_EQ(Run(&child, Scale()).at("ok"), true);
  json missing = Scale();
  missing["kernels"][0]["cubin"] = "/nowhere/kernel";
  EXPECT_EQ(Refusal(&child, {{"op", "load"}, {"plan", missing}}),
            "the kernel's file /nowhere/kernel cannot be read");
  json unknown = Scale();
  unknown["kernels"][0]["name"] = "other";
  EXPECT_EQ(Load(&child, unknown), json({{"ok", false},
                                         {"kind", "cuda"},
                                         {"code", 500},
                                         {"message", "finding a kernel: CUDA_ERROR_NOT_FOUND"}}));
  std::ofstream(folder_ / "image") << "broken";
  EXPECT_EQ(Load(&child, Scale()),
            json({{"ok", false},
                  {"kind", "cuda"},
                  {"code", 200},
                  {"message", "loading a kernel: CUDA_ERROR_INVALID_IMAGE"}}));
  for (const json& request : {json({{"op", "run"}}), json({{"op", "time"}, {"samples", 1}})}) {
    EXPECT_EQ(Refusal(&child, request), "nothing is loaded");
  }
  EXPECT_EQ(Refusal(&child, {{"op", "fetch"}, {"buffers", {{0, 0}}}}), "there is no such result");
  EXPECT_EQ(Refusal(&child, {{"op", "write"}, {"buffers", {0}}}), "buffer 0 has no first content");
}

}  // namespace
}  // namespace kernel_evolve::testing
