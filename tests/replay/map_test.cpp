// Tensor descriptors: what the driver is asked to make of them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/replay/fake_device.hpp"
#include "tests/replay/replay.hpp"

namespace kernel_evolve::testing {
namespace {

using replay::fake::EncodedMap;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Maps : public Replay {
 protected:
  // The second parameter is a map of 5 x 8 floats, 16 bytes behind the start of the output.
  json PlanWith(const json& change = json::object()) const {
    json map = {{"type", 7},
                {"swizzle", 3},
                {"nan", true},
                {"shape", {8, 5}},
                {"strides", json::array({32})},
                {"box", {8, 4}}};
    map.update(change);
    json parameter = At(1, 16);
    parameter["map"] = map;
    return PlanOf("map", {At(1), parameter});
  }
};

TEST_F(Maps, AreMadeForTheBuffersPlace) {
  Child child;
  (void)child.Read();
  for (const bool guard : {true, false}) {
    EXPECT_EQ(Run(&child, PlanWith(), guard).at("ok"), true);
    (void)child.Ask({{"op", "fetch"}, {"buffers", {{1, 0}}}});
    EncodedMap seen = {};
    std::memcpy(&seen, child.shared(), sizeof seen);
    EXPECT_EQ(seen.address, 16U) << "behind the buffer's start, wherever that is";
    EXPECT_EQ(seen.dimensions, 2U);
    EXPECT_EQ(seen.shape[0], 8U);
    EXPECT_EQ(seen.shape[1], 5U);
    EXPECT_EQ(seen.strides[0], 32U);
    EXPECT_EQ(seen.box[0], 8U);
    EXPECT_EQ(seen.box[1], 4U);
    EXPECT_EQ(seen.type, 7);
    EXPECT_EQ(seen.swizzle, 3);
    EXPECT_EQ(seen.promotion, 2);
    EXPECT_EQ(seen.nan, 1);
  }
}

TEST_F(Maps, ThatTheDriverRefusesAreUncovered) {
  Child child;
  (void)child.Read();
  const json answer = Run(&child, PlanWith({{"strides", json::array({20})}}));
  EXPECT_EQ(answer.at("kind"), "uncovered");
  EXPECT_EQ(answer.at("message"), "a tensor descriptor that the driver refuses");
  EXPECT_EQ(Run(&child, PlanWith()).at("ok"), true) << "the next one is made as if nothing was";
}

TEST_F(Maps, ThatMakeNoSenseAreRefused) {
  Child child;
  (void)child.Read();
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"strides", {32, 64}}}, "whose numbers don't fit together"},
      {{{"box", json::array({8})}}, "whose numbers don't fit together"},
      {{{"shape", json::array()}, {"strides", json::array()}, {"box", json::array()}},
       "whose numbers don't fit together"},
      {{{"shape", {1, 1, 1, 1, 1, 1}},
        {"strides", {16, 16, 16, 16, 16}},
        {"box", {1, 1, 1, 1, 1, 1}}},
       "whose numbers don't fit together"},
      {{{"box", {8, 257}}}, "a tile of 257, outside 1 to 256"},
      {{{"box", {8, 0}}}, "a tile of 0"},
      {{{"type", 16}}, "a tensor's type of 16"},
      {{{"swizzle", 7}}, "a swizzle of 7"},
      {{{"shape", {8, -5}}}, "no whole number as a shape"},
      {{{"nan", 1}}, "cannot be read"}};
  for (const auto& [change, sentence] : cases) {
    EXPECT_THAT(Refusal(&child, {{"op", "load"}, {"plan", PlanWith(change)}}), HasSubstr(sentence))
        << change;
  }
}

}  // namespace
}  // namespace kernel_evolve::testing
