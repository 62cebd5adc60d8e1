// Whether and when a failed call is made again.
#include "core/llm/retry.hpp"

#include <gtest/gtest.h>

namespace kernel_evolve {
namespace {

Failure FailureOf(ErrorClass error_class) {
  return {Failed(error_class, "the endpoint said no"), std::nullopt, std::nullopt};
}

TEST(Retry, OnlyWhatMayPassByItself) {
  const RetryPolicy policy;
  for (const ErrorClass again : {ErrorClass::kRateLimit, ErrorClass::kUnavailable,
                                 ErrorClass::kCommunication, ErrorClass::kTimeout}) {
    EXPECT_TRUE(DecideRetry(policy, FailureOf(again), 1, 0).wait_s) << ErrorClassName(again);
  }
  for (const ErrorClass never : {ErrorClass::kAuth, ErrorClass::kValidation, ErrorClass::kCancelled,
                                 ErrorClass::kInvalidOutput, ErrorClass::kInternal}) {
    EXPECT_FALSE(DecideRetry(policy, FailureOf(never), 1, 0).wait_s) << ErrorClassName(never);
  }
}

TEST(Retry, TheCodecKnowsBetterThanTheClass) {
  Failure permanent = FailureOf(ErrorClass::kUnavailable);
  permanent.retry = false;
  EXPECT_FALSE(DecideRetry({}, permanent, 1, 0).wait_s);
  Failure passing = FailureOf(ErrorClass::kInvalidOutput);
  passing.retry = true;
  EXPECT_TRUE(DecideRetry({}, passing, 1, 0).wait_s);
}

TEST(Retry, WaitsTwiceAsLongEachTimeWithJitterDownToTheHalf) {
  const RetryPolicy policy{10, 1, 60};
  const Failure failure = FailureOf(ErrorClass::kTimeout);
  double full = 1;
  for (int attempt = 1; attempt < 10; ++attempt, full *= 2) {
    for (uint64_t salt = 0; salt < 20; ++salt) {
      const double wait = *DecideRetry(policy, failure, attempt, salt).wait_s;
      EXPECT_LE(wait, std::min(full, 60.0));
      EXPECT_GE(wait, std::min(full / 2, 60.0));
    }
  }
  EXPECT_NE(*DecideRetry(policy, failure, 3, 1).wait_s, *DecideRetry(policy, failure, 3, 2).wait_s);
}

TEST(Retry, GivesUpAfterTheLastAttemptAndSaysHowManyThereWere) {
  const RetryPolicy policy{3, 1, 60};
  EXPECT_TRUE(DecideRetry(policy, FailureOf(ErrorClass::kTimeout), 2, 0).wait_s);
  const RetryDecision last = DecideRetry(policy, FailureOf(ErrorClass::kTimeout), 3, 0);
  EXPECT_FALSE(last.wait_s);
  EXPECT_EQ(last.error.message, "the endpoint said no (3 attempts)");
}

TEST(Retry, DoesWhatTheServiceAsksForWithinReason) {
  const RetryPolicy policy{5, 1, 60};
  Failure failure = FailureOf(ErrorClass::kRateLimit);
  failure.retry_after_s = 7.5;
  EXPECT_EQ(DecideRetry(policy, failure, 1, 0).wait_s, 7.5);
  failure.retry_after_s = 0;
  EXPECT_EQ(DecideRetry(policy, failure, 4, 0).wait_s, 0);
  failure.retry_after_s = 3600;
  const RetryDecision decision = DecideRetry(policy, failure, 1, 0);
  EXPECT_FALSE(decision.wait_s);
  EXPECT_NE(decision.error.message.find("retry.max_wait"), std::string::npos)
      << decision.error.message;
}

TEST(RetryAfter, ReadsBothHeadersAndBothForms) {
  EXPECT_EQ(RetryAfter({{"retry-after", "3"}}, 0), 3.0);
  EXPECT_EQ(RetryAfter({{"retry-after", " 1.5 "}}, 0), 1.5);
  EXPECT_EQ(RetryAfter({{"retry-after", "3"}, {"retry-after-ms", "250"}}, 0), 0.25);
  EXPECT_EQ(RetryAfter({{"retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"}}, 1792567670), 10.0);
  EXPECT_EQ(RetryAfter({{"retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"}}, 1892567670), 0.0);
}

TEST(RetryAfter, IgnoresWhatItCannotRead) {
  EXPECT_FALSE(RetryAfter({}, 0));
  EXPECT_FALSE(RetryAfter({{"retry-after", "soon"}}, 0));
  EXPECT_FALSE(RetryAfter({{"retry-after", "-3"}}, 0));
  EXPECT_FALSE(RetryAfter({{"retry-after", "inf"}}, 0));
}

}  // namespace
}  // namespace kernel_evolve
