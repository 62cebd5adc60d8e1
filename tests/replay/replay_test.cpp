// ke_replay as evaluator_gpu uses it: lines in, lines out, data in shared memory. The driver is
// fake_cuda.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "plugins/evaluator_gpu/replay/cuda.hpp"
#include "tests/replay/child.hpp"

namespace kernel_evolve::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kCount = 100;  // floats in the buffers of most plans
constexpr uint64_t kBytes = kCount * sizeof(float);

class Replay : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "replay-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "image") << "an image";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A kernel of the fake driver. `parameters` beyond those it reads are ignored, as on a GPU.
  json Kernel(const std::string& name) const {
    return {
        {"cubin", (folder_ / "image").string()}, {"name", name}, {"shared", 0}, {"threads", 128}};
  }

  static json Launch(const std::vector<json>& parameters, int kernel = 0) {
    return {{"kernel", kernel}, {"grid", {1, 1, 1}}, {"parameters", parameters}};
  }

  static json Value(uint64_t value, size_t bytes = 8) {
    std::string digits;
    for (size_t i = 0; i < bytes; ++i, value >>= 8U) {
      digits += "0123456789abcdef"[value >> 4U & 15U];
      digits += "0123456789abcdef"[value & 15U];
    }
    return {{"value", digits}};
  }

  static json At(int buffer, uint64_t offset = 0) {
    return {{"buffer", buffer}, {"offset", offset}};
  }

  // An input and an output of as many bytes, and one launch.
  json PlanOf(const std::string& kernel, const std::vector<json>& parameters) const {
    return {{"buffers", {{{"bytes", kBytes}, {"data", 0}}, {{"bytes", kBytes}}}},
            {"kernels", {Kernel(kernel)}},
            {"steps", {Launch(parameters)}},
            {"results", {{{"buffer", 1}, {"offset", 0}, {"bytes", kBytes}}}}};
  }

  json Scale() const { return PlanOf("scale", {At(0), At(1), Value(kCount, 4)}); }
  json Copy(uint64_t bytes = kBytes) const { return PlanOf("copy", {At(0), At(1), Value(bytes)}); }

  static void Fill(Child* child, float first) {
    for (int i = 0; i < kCount; ++i) {
      const float value = first + static_cast<float>(i);
      std::memcpy(child->shared() + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
    }
  }

  static json Load(Child* child, const json& plan) {
    return child->Ask({{"op", "load"}, {"plan", plan}});
  }

  // The answer to a run after a load that must have worked.
  static json Run(Child* child, const json& plan, bool guard = true, int poison = 255) {
    const json loaded = Load(child, plan);
    EXPECT_EQ(loaded.at("ok"), true) << loaded;
    return child->Ask({{"op", "run"}, {"guard", guard}, {"poison", poison}, {"seed", 7}});
  }

  // The sentence of a refusal after which the process goes on.
  static std::string Refusal(Child* child, const json& request) {
    const json answer = child->Ask(request);
    EXPECT_EQ(answer.at("ok"), false) << answer;
    EXPECT_EQ(answer.value("kind", ""), "request") << answer;
    EXPECT_EQ(child->Ask({{"op", "describe"}}).at("ok"), true);
    return answer.value("message", "");
  }

  // What the driver did: reservations of addresses, or everything else.
  std::vector<std::string> Log(bool reservations = false) const {
    std::ifstream file(folder_ / "log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      if ((line.rfind("reserve", 0) == 0) == reservations) lines.push_back(line);
    }
    return lines;
  }

  fs::path folder_;
};

// -- starting and ending --------------------------------------------------------------------------

TEST_F(Replay, SaysWhatItFound) {
  Child child;
  const json ready = child.Read();
  EXPECT_EQ(ready.at("ok"), true);
  EXPECT_EQ(ready.at("name"), "Imagined GPU");
  EXPECT_EQ(ready.at("bus"), "0000:01:00.0");
  EXPECT_EQ(ready.at("driver"), 12080);
  EXPECT_EQ(ready.at("sms"), 4);
  EXPECT_EQ(ready.at("l2_bytes"), 64 << 10);
  EXPECT_EQ(ready.at("memory_bytes"), 1 << 30);
  EXPECT_EQ(ready.at("pageable_memory_access"), 0);
  EXPECT_LT(ready.at("free_bytes"), ready.at("memory_bytes"));
  EXPECT_EQ(child.Ask({{"op", "describe"}}), ready);
}

TEST_F(Replay, EndsWithItsInput) {
  Child child;
  EXPECT_EQ(child.Read().at("ok"), true);
  child.CloseInput();
  EXPECT_EQ(child.Read(), nullptr);
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(Replay, EndsWithItsInputInAKernelThatNeverEnds) {
  Child child;
  (void)child.Read();
  EXPECT_EQ(Load(&child, PlanOf("hang", {})).at("ok"), true);
  child.Send(R"({"op": "run"})");
  child.CloseInput();
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(Replay, WithoutADriverSaysSo) {
  std::ofstream(folder_ / "libcuda.so.1").flush();  // nothing that loads, before a real one
  Child child({folder_, {}});
  const json answer = child.Read();
  EXPECT_EQ(answer.at("ok"), false);
  EXPECT_EQ(answer.at("kind"), "device");
  EXPECT_THAT(std::string(answer.at("message")),
              HasSubstr("there is no NVIDIA driver (libcuda.so.1) here; run on a machine with an"));
  EXPECT_EQ(child.Read(), nullptr);
  EXPECT_EQ(child.Wait(), 3);
}

TEST_F(Replay, NamesWhatADriverLacks) {
  std::ifstream file(FAKE_DRIVER, std::ios::binary);
  const std::string library = {std::istreambuf_iterator<char>(file), {}};
#define KE_NAME(member, name, ...) name,
  for (const std::string name : {KE_CUDA_FUNCTIONS(KE_NAME)}) {
#undef KE_NAME
    // The same library, with that function under another name.
    std::string without = library;
    const std::string whole = std::string(1, '\0') + name + std::string(1, '\0');
    size_t at = without.find(whole);
    ASSERT_NE(at, std::string::npos) << name;
    for (; at != std::string::npos; at = without.find(whole, at)) without[at + 1] = 'X';
    std::ofstream(folder_ / "libcuda.so.1", std::ios::binary) << without;
    Child child({folder_, {}});
    const json answer = child.Read();
    EXPECT_EQ(answer.value("message", ""),
              "the NVIDIA driver lacks " + name + "; install a driver for CUDA 12.0 or later");
    EXPECT_EQ(child.Wait(), 3);
  }
}

TEST_F(Replay, NamesWhatFailsAtTheStart) {
  const std::map<std::string, std::string> sentences = {
      {"cuInit:100", "starting CUDA: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"},
      {"cuDevicePrimaryCtxRetain:2", "making a context: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuModuleLoadData:200", "compiling the replay's kernels: CUDA_ERROR_INVALID_IMAGE"},
      {"cuMemAddressReserve:2", "reserving addresses: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuMemCreate:2", "allocating memory: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuDeviceGetName:999", "asking for the name: error 999"}};
  for (const auto& [failing, sentence] : sentences) {
    Child child({{}, {{"FAKE_CUDA_FAIL", failing}}});
    const json answer = child.Read();
    EXPECT_EQ(answer.value("message", ""), sentence);
    EXPECT_EQ(answer.value("kind", ""), "device");
    EXPECT_EQ(child.Wait(), 3);
  }
}

TEST_F(Replay, ADeviceThatIsNotThere) {
  Child::Options options;
  options.device = 3;
  Child child(options);
  EXPECT_EQ(child.Read().value("message", ""), "opening the device: CUDA_ERROR_INVALID_DEVICE");
  EXPECT_EQ(child.Wait(), 3);
}

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

// -- time -----------------------------------------------------------------------------------------

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
    EXPECT_EQ(timed.at("changed"), keep < 2 ? json({0}) : json::array());
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

// -- what makes no sense --------------------------------------------------------------------------

TEST_F(Replay, RefusesPlansThatMakeNoSense) {
  Child child;
  (void)child.Read();
  const json good = Scale();
  const auto refusal = [&](const std::string& where, const json& value) {
    json plan = good;
    plan[json::json_pointer(where)] = value;
    return Refusal(&child, {{"op", "load"}, {"plan", plan}});
  };
  const std::string first = "/steps/0/parameters/0";
  EXPECT_EQ(refusal("/steps/0/kernel", 1), "the plan has no kernel 1");
  EXPECT_EQ(refusal("/steps/0/kernel", -1), "the plan has no whole number as kernel");
  EXPECT_EQ(refusal("/steps/0/kernel", 0.5), "the plan has no whole number as kernel");
  EXPECT_EQ(refusal("/steps/0/grid", {1, 1}), "the plan has a grid that is not three numbers");
  EXPECT_EQ(refusal("/steps/0/grid", 1), "the plan has a grid that is not three numbers");
  EXPECT_EQ(refusal("/steps/0/grid/0", 1U << 31U),
            "the plan has a grid of 2147483648, outside 0 to 2147483647");
  EXPECT_EQ(refusal(first, At(2)), "the plan has no buffer 2");
  EXPECT_EQ(refusal(first, At(0, kBytes + 1)), "the plan has a range outside its buffer");
  EXPECT_EQ(refusal(first, At(0, ~uint64_t{0})), "the plan has a range outside its buffer");
  for (const char* digits : {"", "0", "00112233445566778899"}) {
    EXPECT_EQ(refusal(first, {{"value", digits}}),
              "the plan has a parameter without a buffer or a value of 1 to 8 bytes");
  }
  for (const char* digits : {"0g", "0G", "AA", "0x"}) {
    EXPECT_EQ(refusal(first, {{"value", digits}}),
              "the plan has a value that is not in hexadecimal digits");
  }
  EXPECT_EQ(refusal("/kernels/0/threads", 1025), "the plan has threads of 1025, outside 1 to 1024");
  EXPECT_EQ(refusal("/kernels/0/threads", 0), "the plan has threads of 0, outside 1 to 1024");
  EXPECT_EQ(refusal("/kernels/0/shared", 1 << 21),
            "the plan has shared memory of 2097152, outside 0 to 1048576");
  EXPECT_EQ(refusal("/buffers/0/bytes", -4), "the plan has no whole number as a size");
  EXPECT_EQ(refusal("/buffers/0/data", child.shared_bytes()),
            "the plan has a buffer whose content lies outside the shared memory");
  EXPECT_EQ(refusal("/buffers/0/bytes", ~uint64_t{0}),
            "the plan has a buffer whose content lies outside the shared memory");
  EXPECT_EQ(refusal("/results/0/bytes", kBytes + 1), "the plan has a range outside its buffer");
  EXPECT_EQ(refusal("/results/0/offset", ~uint64_t{0}), "the plan has a range outside its buffer");
  EXPECT_EQ(refusal("/steps/0", {{"fill", 256}, {"buffer", 0}, {"offset", 0}, {"bytes", 1}}),
            "the plan has a byte of 256, outside 0 to 255");
  EXPECT_EQ(refusal("/steps/0", {{"fill", 0}, {"buffer", 0}, {"offset", 1}, {"bytes", kBytes}}),
            "the plan has a range outside its buffer");
  for (const char* where : {"/buffers", "/kernels", "/steps", "/results", "/steps/0", first.c_str(),
                            "/kernels/0/cubin", "/kernels/0/name", "/steps/0/parameters"}) {
    for (const json& value : {json(3), json("text")}) {
      if (value.is_string() && std::string(where).rfind("/kernels/0/", 0) == 0) continue;
      EXPECT_THAT(refusal(where, value), HasSubstr("the plan ")) << where << " " << value;
    }
  }
  EXPECT_EQ(Load(&child, good).at("ok"), true);
}

TEST_F(Replay, RefusesRequestsThatMakeNoSense) {
  Child child;
  (void)child.Read();
  EXPECT_EQ(Run(&child, Scale()).at("ok"), true);
  EXPECT_EQ(Refusal(&child, {{"op", "dance"}}), "there is no request 'dance'");
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 0}}), "too many samples");
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 100001}}), "too many samples");
  EXPECT_EQ(Refusal(&child, {{"op", "write"}, {"buffers", {1}}}), "buffer 1 has no first content");
  EXPECT_EQ(Refusal(&child, {{"op", "write"}, {"buffers", {-1}}}),
            "buffer 18446744073709551615 has no first content");
  EXPECT_EQ(Refusal(&child, {{"op", "fetch"}, {"buffers", {{2, 0}}}}), "there is no such result");
  for (const uint64_t offset : {child.shared_bytes() - kBytes + 1, ~uint64_t{0}}) {
    EXPECT_EQ(Refusal(&child, {{"op", "fetch"}, {"buffers", {{1, offset}}}}),
              "a result does not fit into the shared memory");
  }
  for (const int keep : {-1, 2}) {
    EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 2}, {"keep", keep}}),
              "no such sample to keep");
  }
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 2}, {"fetch", {{2, 0}}}}),
            "there is no such result");
  EXPECT_EQ(Refusal(&child, {{"op", "run"}, {"poison", 256}}), "a poison is no byte");
  for (const json& poisons : {json({-1}), json({1, 256})}) {
    EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 1}, {"poisons", poisons}}),
              "a poison is no byte");
  }
  EXPECT_EQ(Refusal(&child, {{"op", "time"}, {"samples", 1}, {"poisons", json::array()}}),
            "there is no poison");
  for (const json& odd :
       {json(), json(3), json({{"op", 3}}), json({{"op", "load"}}),
        json({{"op", "run"}, {"seed", "x"}}), json({{"op", "fetch"}}),
        json({{"op", "fetch"}, {"buffers", {1}}}), json({{"op", "run"}, {"guard", 1}})}) {
    EXPECT_THAT(Refusal(&child, odd), HasSubstr("the request cannot be read: ")) << odd;
  }
}

TEST_F(Replay, GarbageIsAnsweredInOneLine) {
  Child child;
  (void)child.Read();
  for (const std::string line :
       {"", "{", "garbage", "\x01\x02", "\xff\xfe", "{\"op\": \"\xff\"}"}) {
    child.Send(line);
    const json answer = child.Read();
    ASSERT_TRUE(answer.is_object()) << line;
    EXPECT_EQ(answer.at("kind"), "request");
    EXPECT_THAT(std::string(answer.at("message")), HasSubstr("the request cannot be read: "));
  }
  EXPECT_EQ(child.Ask({{"op", "describe"}}).at("ok"), true);
}

}  // namespace
}  // namespace kernel_evolve::testing
