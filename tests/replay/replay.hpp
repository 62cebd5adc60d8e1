// ke_replay as evaluator_gpu uses it: lines in, lines out, data in shared memory. The driver is
// fake_cuda.cpp, and kernels are those of fake_kernels.cpp.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/replay/child.hpp"

namespace kernel_evolve::testing {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

inline constexpr int kCount = 100;  // floats in the buffers of most plans
inline constexpr uint64_t kBytes = kCount * sizeof(float);

// A folder with a kernel's image, and plans of one launch or few.
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

}  // namespace kernel_evolve::testing
