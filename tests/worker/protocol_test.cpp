// The host's side against a stand-in that plays odd parts: what Worker promises whatever the
// process does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <thread>

#include "tests/worker/harness.hpp"

namespace kernel_evolve {
namespace {

using ::testing::AllOf;
using testing::CallAndWait;
using testing::CallOf;
using testing::Describe;
using testing::FakeOptions;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Pending;
using ::testing::StartsWith;
using testing::TemporaryFolder;

TEST(Protocol, AnswersWithTheValueAndWhatWasMeasured) {
  Worker worker(FakeOptions("echo"));
  const auto reply = CallAndWait(&worker, CallOf("f", Json::Obj({{"a", 1}})));
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_EQ(reply->value.Dump(), R"({"echo":{"a":1}})");
  EXPECT_EQ(reply->isolation.Text("level"), "none");
  EXPECT_EQ(reply->seconds, 0.5);
  EXPECT_EQ(reply->peak_kb, 7);
}

TEST(Protocol, NothingRunsBeforeTheFirstCall) {
  Worker worker(FakeOptions("echo"));
  EXPECT_TRUE(worker.ready_info().is_null());
  worker.Cancel(1);
  worker.CloseSession("s");
  EXPECT_TRUE(worker.ready_info().is_null());
  ASSERT_TRUE(CallAndWait(&worker, CallOf("f")).ok());
  EXPECT_EQ(worker.ready_info().Text("torch"), "0");
  EXPECT_TRUE(testing::ProcessLives(static_cast<int>(worker.ready_info().Integer("pid"))));
}

TEST(Protocol, StrayLinesUnknownMessagesAndSecondAnswersAreIgnored) {
  Worker worker(FakeOptions("chatty"));
  for (int i = 0; i < 3; ++i) {
    Pending pending(&worker, CallOf("f", Json::Obj({{"i", i}})));
    EXPECT_EQ(Describe(pending.Get()), "ok: {\"echo\":{\"i\":" + std::to_string(i) + "}}");
    EXPECT_EQ(pending.progress().size(), 1U);
  }
}

TEST(Protocol, ADeathFailsTheCallsInFlightAndTheNextCallStartsAnew) {
  const TemporaryFolder notes;
  Worker worker(FakeOptions("dies_once", notes.path()));
  EXPECT_EQ(Describe(CallAndWait(&worker, CallOf("f"))),
            "unavailable: the Python worker ended during the call: it exited with status 3: the "
            "disk is gone");
  EXPECT_EQ(Describe(CallAndWait(&worker, CallOf("f"))), "ok: {\"echo\":{}}");
}

TEST(Protocol, AKilledProcessIsNamedByItsSignal) {
  Worker worker(FakeOptions("killed"));
  EXPECT_EQ(Describe(CallAndWait(&worker, CallOf("f"))),
            "unavailable: the Python worker ended during the call: it was killed by signal 9 "
            "(Killed)");
}

TEST(Protocol, ACallMadeInACallbackOfAFailureIsServed) {
  const TemporaryFolder notes;
  Worker worker(FakeOptions("dies_once", notes.path()));
  std::promise<std::string> second;
  worker.Call(CallOf("f"), [&](Result<WorkerReply> first) {
    EXPECT_FALSE(first.ok());
    worker.Call(CallOf("f"), [&](Result<WorkerReply> reply) { second.set_value(Describe(reply)); });
  });
  EXPECT_EQ(second.get_future().get(), "ok: {\"echo\":{}}");
}

TEST(Protocol, AProcessThatDoesNotComeUpSaysItsLastWords) {
  Worker worker(FakeOptions("dies_early"));
  const auto reply = CallAndWait(&worker, CallOf("f"));
  EXPECT_EQ(Describe(reply),
            "unavailable: the Python worker (python) did not come up: it exited with status 1: "
            "ImportError: no luck");
  EXPECT_EQ(reply.error().exit_code, kExitEnvironment);
}

TEST(Protocol, AFatalMessageReachesTheCallerWordForWord) {
  Worker worker(FakeOptions("fatal"));
  const auto reply = CallAndWait(&worker, CallOf("f"));
  EXPECT_EQ(Describe(reply), "unavailable: PyTorch is not installed; type x");
  EXPECT_EQ(reply.error().exit_code, kExitEnvironment);
}

TEST(Protocol, AProgramThatDoesNotExistIsUnavailable) {
  WorkerOptions options = FakeOptions("echo");
  options.launch_prefix.clear();
  options.python = "/nowhere/python";
  Worker worker(options);
  const auto reply = CallAndWait(&worker, CallOf("f"));
  EXPECT_EQ(Describe(reply),
            "unavailable: cannot start /nowhere/python: No such file or directory");
  EXPECT_EQ(reply.error().exit_code, kExitEnvironment);
}

TEST(Protocol, AStartThatTakesTooLongIsGivenUp) {
  WorkerOptions options = FakeOptions("never_ready");
  options.start_timeout_s = 0.2;
  Worker worker(options);
  EXPECT_THAT(Describe(CallAndWait(&worker, CallOf("f"))),
              StartsWith("unavailable: the Python worker did not come up within 0.2 s"));
}

TEST(Protocol, AProcessThatLetsADeadlinePassIsEnded) {
  WorkerOptions options = FakeOptions("silent");
  options.grace_s = 0.1;
  Worker worker(options);
  Pending late(&worker, CallOf("f", Json::Obj(), 0.1));
  Pending other(&worker, CallOf("f", Json::Obj(), 600));
  EXPECT_THAT(Describe(late.Get()), StartsWith("timeout: the call did not end within 0.1 s"));
  EXPECT_EQ(Describe(other.Get()),
            "unavailable: the Python worker stopped answering and was ended");
}

TEST(Protocol, TheDeadlineOfASessionsCallCountsOnlyFromItsTurn) {
  WorkerOptions options = FakeOptions("silent");
  options.grace_s = 0.1;
  Worker worker(options);
  WorkerCall first = CallOf("f", Json::Obj(), 1.0);
  first.session = "s";
  WorkerCall second = CallOf("f", Json::Obj(), 0.1);
  second.session = "s";
  Pending before(&worker, std::move(first));
  Pending behind(&worker, std::move(second));
  EXPECT_THAT(Describe(before.Get()), StartsWith("timeout"));
  EXPECT_THAT(Describe(behind.Get()), StartsWith("unavailable"));
}

TEST(Protocol, ACancelledCallEndsEvenIfTheProcessDoesNotListen) {
  WorkerOptions options = FakeOptions("silent");
  options.grace_s = 0.1;
  Worker worker(options);
  Pending pending(&worker, CallOf("f", Json::Obj(), 600));
  worker.Cancel(pending.id());
  const auto reply = pending.Get();
  EXPECT_FALSE(reply.ok());
  EXPECT_THAT(Describe(reply), ::testing::AnyOf(StartsWith("cancelled"), StartsWith("timeout")));
}

TEST(Protocol, CancellingTwiceOrAnUnknownNumberDoesNothing) {
  Worker worker(FakeOptions("echo"));
  Pending pending(&worker, CallOf("f"));
  ASSERT_TRUE(pending.Get().ok());
  worker.Cancel(pending.id());
  worker.Cancel(pending.id());
  worker.Cancel(12345);
  EXPECT_TRUE(CallAndWait(&worker, CallOf("f")).ok());
}

TEST(Protocol, ALineWithoutEndDoesNotFillTheMemory) {
  Worker worker(FakeOptions("endless_line"));
  EXPECT_THAT(Describe(CallAndWait(&worker, CallOf("f"))),
              StartsWith("invalid_output: the Python worker sent a line longer than 64 MiB"));
}

TEST(Protocol, ARequestThatIsTooLongIsRefusedAlone) {
  Worker worker(FakeOptions("echo"));
  Pending huge(&worker, CallOf("f", Json::Obj({{"x", std::string(size_t{65} << 20U, 'x')}})));
  Pending small(&worker, CallOf("f"));
  EXPECT_THAT(Describe(huge.Get()), StartsWith("validation: the request of the worker call is"));
  EXPECT_TRUE(small.Get().ok());
}

TEST(Protocol, ALongRequestIsEchoedWhole) {
  Worker worker(FakeOptions("echo"));
  const std::string text(size_t{8} << 20U, 'x');
  const auto reply = CallAndWait(&worker, CallOf("f", Json::Obj({{"x", text}})));
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_EQ(reply->value["echo"].Text("x"), text);
}

TEST(Protocol, CallReturnsThoughTheProcessReadsNothing) {
  Worker worker(FakeOptions("deaf"));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Pending>> pending;
  for (int i = 0; i < 16; ++i) {
    pending.push_back(std::make_unique<Pending>(
        &worker, CallOf("f", Json::Obj({{"x", std::string(1U << 20U, 'x')}}), 600)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Protocol, AnswersOfAnotherFormAreErrors) {
  Worker worker(FakeOptions("odd_answers"));
  const auto answer = [&worker](const char* kind) {
    return Describe(CallAndWait(&worker, CallOf("f", Json::Obj({{"kind", kind}}))));
  };
  EXPECT_EQ(answer("list"), "invalid_output: the worker's answer is not an object");
  EXPECT_EQ(answer("class"), "internal: m");
  EXPECT_EQ(answer("bare"), "internal: the worker reported an error without a word");
}

TEST(Protocol, DestructionEndsOpenCallsAsCancelled) {
  std::unique_ptr<Pending> pending;
  {
    Worker worker(FakeOptions("silent"));
    pending = std::make_unique<Pending>(&worker, CallOf("f", Json::Obj(), 600));
  }
  EXPECT_EQ(Describe(pending->Get()), "cancelled: the worker was shut down");
}

TEST(Protocol, DestructionKillsWhoDoesNotListen) {
  int pid = 0;
  {
    WorkerOptions options = FakeOptions("stubborn");
    options.grace_s = 0.1;
    Worker worker(options);
    ASSERT_TRUE(CallAndWait(&worker, CallOf("f")).ok());
    pid = static_cast<int>(worker.ready_info().Integer("pid"));
    ASSERT_TRUE(testing::ProcessLives(pid));
  }
  EXPECT_FALSE(testing::ProcessLives(pid));
}

TEST(Protocol, DestructionDoesNotWaitForAStart) {
  const auto begin = std::chrono::steady_clock::now();
  {
    Worker worker(FakeOptions("never_ready"));
    worker.Call(CallOf("f"), {});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

TEST(Protocol, SecretsStayHereAndTheModulePathCannotBeInjected) {
  setenv("OPENAI_API_KEY", "sk-123", 1);
  setenv("HF_TOKEN", "hf-123", 1);
  setenv("PYTHONPATH", "/tmp/evil", 1);
  setenv("LD_PRELOAD", "", 1);
  Worker worker(FakeOptions("environment"));
  const auto reply = CallAndWait(&worker, CallOf("f"));
  for (const char* name : {"OPENAI_API_KEY", "HF_TOKEN", "PYTHONPATH", "LD_PRELOAD"}) {
    unsetenv(name);
  }
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  const std::string text = reply->value.Dump();
  EXPECT_THAT(text, Not(HasSubstr("sk-123")));
  EXPECT_THAT(text, Not(HasSubstr("hf-123")));
  EXPECT_THAT(text, Not(HasSubstr("/tmp/evil")));
  const Json& environment = reply->value["environment"];
  EXPECT_TRUE(environment.contains("PATH"));
  EXPECT_EQ(environment.Text("OMP_NUM_THREADS"), "1");
  EXPECT_THAT(text, HasSubstr(R"("python","-I","/nowhere/kernel_evolve_worker/__main__.py")"));
}

TEST(Protocol, ManyThreadsMayCallAtOnce) {
  Worker worker(FakeOptions("echo"));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&worker, &right, t] {
      for (int i = 0; i < 50; ++i) {
        const int number = t * 1000 + i;
        const auto reply = CallAndWait(&worker, CallOf("f", Json::Obj({{"n", number}})));
        if (reply && reply->value["echo"].Integer("n") == number) ++right;
        worker.Cancel(number);
        (void)worker.ready_info();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(right, 1);  // some were cancelled by another thread's number
  EXPECT_TRUE(CallAndWait(&worker, CallOf("f")).ok());
}

}  // namespace
}  // namespace kernel_evolve
