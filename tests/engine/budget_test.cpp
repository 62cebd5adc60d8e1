#include "core/engine/budget.hpp"

#include <gtest/gtest.h>

namespace kernel_evolve {
namespace {

Charge Calls(int64_t count) { return {0, count, 0, 0, 0}; }
Charge Tokens(int64_t count) { return {0, 0, 0, count, 0}; }
Charge Cost(double amount) { return {0, 0, 0, 0, amount}; }

graph::Budget LimitCalls(int64_t count) {
  graph::Budget limits;
  limits.llm_calls = count;
  return limits;
}

TEST(Ledger, WithoutLimitsGivesEverything) {
  Ledger ledger;
  EXPECT_EQ(ledger.Reserve({1000, 1000, 1000, 1000000, 1e6}), std::nullopt);
  EXPECT_EQ(ledger.Left(), Json::Obj());
}

TEST(Ledger, WhatIsInFlightTogetherCannotOvershootTogether) {
  Ledger ledger(LimitCalls(3));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ledger.Reserve(Calls(1)), std::nullopt);
  EXPECT_EQ(ledger.Reserve(Calls(1)), "llm_calls");
  EXPECT_EQ(ledger.Used()["llm_calls"], Json(0)) << "nothing is spent before it is settled";
}

TEST(Ledger, WhatWasNotNeededComesBack) {
  graph::Budget limits;
  limits.tokens = 1000;
  Ledger ledger(limits);
  EXPECT_EQ(ledger.Reserve(Tokens(900)), std::nullopt);
  EXPECT_EQ(ledger.Reserve(Tokens(200)), "tokens");
  ledger.Settle(Tokens(900), Tokens(100));
  EXPECT_EQ(ledger.Reserve(Tokens(900)), std::nullopt);
}

TEST(Ledger, AnOvershootStopsTheNextAndNothingElse) {
  graph::Budget limits = LimitCalls(9);
  limits.tokens = 100;
  Ledger ledger(limits);
  ASSERT_EQ(ledger.Reserve(Tokens(50)), std::nullopt);
  ledger.Settle(Tokens(50), Tokens(170));
  EXPECT_EQ(ledger.Reserve(Tokens(1)), "tokens");
  EXPECT_EQ(ledger.Reserve(Calls(1)), std::nullopt) << "it asks for no tokens";
  EXPECT_EQ(ledger.Left()["tokens"], Json(0)) << "never below nothing";
}

TEST(Ledger, ARefusalSetsNothingAside) {
  graph::Budget limits = LimitCalls(1);
  limits.tokens = 10;
  Ledger ledger(limits);
  EXPECT_EQ(ledger.Reserve({0, 1, 0, 11, 0}), "tokens");
  EXPECT_EQ(ledger.Reserve({0, 1, 0, 10, 0}), std::nullopt);
}

TEST(Ledger, ACostThatIsMetExactlyIsNotOverspent) {
  graph::Budget limits;
  limits.cost = 0.3;
  Ledger ledger(limits);
  for (int i = 0; i < 3; ++i) {  // 0.1 + 0.1 + 0.1 is a little more than 0.3
    EXPECT_EQ(ledger.Reserve(Cost(0.1)), std::nullopt);
    ledger.Settle(Cost(0.1), Cost(0.1));
  }
  EXPECT_EQ(ledger.Reserve(Cost(0.1)), "cost");
}

TEST(Ledger, TheClockNeverGoesBack) {
  Ledger ledger;
  ledger.SetWall(5);
  ledger.SetWall(3);
  EXPECT_EQ(ledger.Used()["wall"], Json(5.0));
}

TEST(Ledger, SaysInASentenceWhatIsSpent) {
  graph::Budget limits = LimitCalls(60);
  limits.wall_s = 1.5;
  limits.tokens = 100;
  Ledger ledger(limits);
  EXPECT_EQ(ledger.Sentence("llm_calls"), "the budget of 60 llm_calls is spent");
  EXPECT_EQ(ledger.Sentence("wall"), "the budget of 1.5 s wall time is spent");
  EXPECT_EQ(ledger.Sentence("tokens"),
            "what is left of the budget of 100 tokens does not cover another model call");
}

TEST(Override, ReplacesOnlyWhatIsSet) {
  graph::Budget base = LimitCalls(60);
  base.wall_s = 10;
  graph::Budget over;
  over.llm_calls = 5;
  over.cost = 1.0;
  const graph::Budget merged = Override(base, over);
  EXPECT_EQ(merged.llm_calls, 5);
  EXPECT_EQ(merged.wall_s, 10);
  EXPECT_EQ(merged.cost, 1.0);
  EXPECT_EQ(merged.tokens, std::nullopt);
}

TEST(Charge, ComesBackFromTheJournal) {
  const Charge charge{1, 2, 3, 4, 0.1};
  EXPECT_EQ(Charge::FromJson(charge.ToJson()).ToJson(), charge.ToJson());
}

}  // namespace
}  // namespace kernel_evolve
