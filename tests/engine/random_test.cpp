#include "core/engine/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace kernel_evolve {
namespace {

TEST(RandomStream, ItsNumbersNeverChange) {
  // Computed apart from this program: journals of older versions must replay.
  const RandomStream stream(7, "work", 1, 1, 2);
  EXPECT_EQ(stream.Uniform(0), 0.34310030965990734);
  EXPECT_EQ(stream.Uniform(1), 0.7086111115555488);
}

TEST(RandomStream, EveryPartOfTheKeyMatters) {
  const std::set<uint64_t> first = {
      RandomStream(1, "a", 1, 1, 1).Bits(0), RandomStream(2, "a", 1, 1, 1).Bits(0),
      RandomStream(1, "b", 1, 1, 1).Bits(0), RandomStream(1, "a", 2, 1, 1).Bits(0),
      RandomStream(1, "a", 1, 2, 1).Bits(0), RandomStream(1, "a", 1, 1, 2).Bits(0),
      RandomStream(1, "a", 1, 1, 1).Bits(1), RandomStream(1, "", 1, 1, 1).Bits(0)};
  EXPECT_EQ(first.size(), 8U);
}

TEST(RandomStream, IsUniformEnoughToChooseBy) {
  const RandomStream stream(3, "node", 1, 1, 1);
  constexpr int kDraws = 20000;
  int buckets[10] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double value = stream.Uniform(static_cast<uint64_t>(i));
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    ++buckets[static_cast<int>(value * 10)];
  }
  // 2000 expected in each, with a standard deviation of 42.
  for (const int count : buckets) EXPECT_NEAR(count, kDraws / 10, 5 * 42);
}

}  // namespace
}  // namespace kernel_evolve
