// Several workers behind one queue: who gets a call.
#include <gtest/gtest.h>

#include "tests/worker/harness.hpp"

namespace kernel_evolve::testing {
namespace {

const Json kHold = Json::Obj({{"hold", true}});

// Workers that answer with their number.
WorkerPool Numbered(int count) {
  std::vector<WorkerOptions> workers;
  for (int i = 0; i < count; ++i) workers.push_back(FakeOptions("holding", std::to_string(i)));
  return WorkerPool(std::move(workers));
}

WorkerCall Of(const std::string& session, Json request = Json::Obj()) {
  WorkerCall call = CallOf("any", std::move(request));
  call.session = session;
  return call;
}

std::string WhoServes(WorkerPool* pool, WorkerCall call) {
  const Result<WorkerReply> reply = Pending(pool, std::move(call)).Get();
  return reply ? reply->value.Text("who") : Describe(reply);
}

TEST(WorkerPool, OneCallAfterTheOtherGoesToTheFirst) {
  WorkerPool pool = Numbered(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(WhoServes(&pool, Of("judge")), "0");
}

TEST(WorkerPool, AnOpenCallSendsTheNextElsewhere) {
  WorkerPool pool = Numbered(2);
  Pending held(&pool, Of("judge", kHold));
  ASSERT_TRUE(held.WaitForProgress());
  EXPECT_EQ(WhoServes(&pool, Of("judge")), "1");
  Pending second(&pool, Of("judge", kHold));
  ASSERT_TRUE(second.WaitForProgress());
  EXPECT_EQ(WhoServes(&pool, Of("judge")), "0");  // both have one: the first of equal ones
  EXPECT_EQ(Describe(held.Get()), R"(ok: {"who":"0"})");
}

TEST(WorkerPool, SessionsAreCountedApart) {
  WorkerPool pool = Numbered(2);
  Pending held(&pool, Of("one task", kHold));
  ASSERT_TRUE(held.WaitForProgress());
  EXPECT_EQ(WhoServes(&pool, Of("another task")), "0");
  EXPECT_EQ(WhoServes(&pool, Of("")), "0");
}

TEST(WorkerPool, NumbersAreThePoolsOwn) {
  WorkerPool pool = Numbered(2);
  Pending first(&pool, Of("judge", kHold));
  Pending second(&pool, Of("judge", kHold));
  EXPECT_NE(first.id(), second.id());
  ASSERT_TRUE(second.WaitForProgress());
  pool.Cancel(second.id());
  EXPECT_EQ(Describe(second.Get()).substr(0, 9), "cancelled");
  EXPECT_EQ(WhoServes(&pool, Of("judge")), "1");  // the cancelled one no longer counts
  EXPECT_EQ(WhoServes(&pool, Of("judge", Json::Obj())), "1");
  pool.Cancel(first.id());
  EXPECT_EQ(Describe(first.Get()).substr(0, 9), "cancelled");
  pool.Cancel(first.id());  // an ended one is ignored
  pool.Cancel(12345);
}

TEST(WorkerPool, OpenCallsEndWithThePool) {
  std::unique_ptr<Pending> held;
  {
    WorkerPool pool = Numbered(2);
    held = std::make_unique<Pending>(&pool, Of("judge", kHold));
    ASSERT_TRUE(held->WaitForProgress());
  }
  EXPECT_EQ(Describe(held->Get()).substr(0, 9), "cancelled");
}

}  // namespace
}  // namespace kernel_evolve::testing
