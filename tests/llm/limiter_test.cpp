// Who may call an endpoint now.
#include "core/llm/limiter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kernel_evolve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(Limiter, FirstComeFirstServedUpToTheConcurrency) {
  Limiter limiter;
  for (int64_t ticket = 1; ticket <= 4; ++ticket) limiter.Enqueue("a", ticket, {2, 0});
  double next = 0;
  EXPECT_THAT(limiter.Admit(0, &next), ElementsAre(1, 2));
  EXPECT_EQ(next, kNever) << "only a Release helps";
  EXPECT_THAT(limiter.Admit(100, &next), IsEmpty());
  limiter.Release("a");
  EXPECT_THAT(limiter.Admit(100, &next), ElementsAre(3));
}

TEST(Limiter, EndpointsDoNotWaitForEachOther) {
  Limiter limiter;
  limiter.Enqueue("a", 1, {1, 0});
  limiter.Enqueue("a", 2, {1, 0});
  limiter.Enqueue("b", 3, {1, 0});
  double next = 0;
  EXPECT_THAT(limiter.Admit(0, &next), ElementsAre(1, 3));
}

TEST(Limiter, SpacesCallsEvenlyOverTheMinute) {
  Limiter limiter;
  for (int64_t ticket = 1; ticket <= 3; ++ticket) limiter.Enqueue("a", ticket, {10, 30});
  double next = 0;
  EXPECT_THAT(limiter.Admit(10, &next), ElementsAre(1));
  EXPECT_EQ(next, 12);
  EXPECT_THAT(limiter.Admit(11.9, &next), IsEmpty());
  EXPECT_THAT(limiter.Admit(12, &next), ElementsAre(2));
  EXPECT_EQ(next, 14);
}

TEST(Limiter, APauseHoldsEveryoneAndNeverGetsShorter) {
  Limiter limiter;
  limiter.Enqueue("a", 1, {10, 0});
  limiter.Pause("a", 20);
  limiter.Pause("a", 15);
  double next = 0;
  EXPECT_THAT(limiter.Admit(19, &next), IsEmpty());
  EXPECT_EQ(next, 20);
  EXPECT_THAT(limiter.Admit(20, &next), ElementsAre(1));
}

TEST(Limiter, ARemovedCallNeverBegins) {
  Limiter limiter;
  limiter.Enqueue("a", 1, {1, 0});
  limiter.Enqueue("a", 2, {1, 0});
  EXPECT_TRUE(limiter.Remove("a", 1));
  EXPECT_FALSE(limiter.Remove("a", 1));
  double next = 0;
  EXPECT_THAT(limiter.Admit(0, &next), ElementsAre(2));
  EXPECT_FALSE(limiter.Remove("a", 2)) << "it has begun";
}

}  // namespace
}  // namespace kernel_evolve
