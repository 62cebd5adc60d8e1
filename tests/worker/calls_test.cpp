// What a call of the real zygote gives: answers, planned errors, and every way a child can go
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/worker/levels.hpp"

namespace kernel_evolve::testing {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace {

// One worker per level for the whole program; ended before main returns.
class Workers : public ::testing::Environment {
 public:
  Worker* Get(const std::string& level) {
    std::unique_ptr<Worker>& worker = workers_[level];
    if (!worker) worker = std::make_unique<Worker>(RealOptions(level));
    return worker.get();
  }
  void TearDown() override { workers_.clear(); }

 private:
  std::map<std::string, std::unique_ptr<Worker>> workers_;
};

Workers* const workers =
    static_cast<Workers*>(::testing::AddGlobalTestEnvironment(new Workers));  // gtest owns it

}  // namespace

Worker* LevelTest::SharedWorker(const std::string& level) { return workers->Get(level); }

bool LevelTest::HasNamespaces() {
  const auto reply = Run("echo");
  EXPECT_TRUE(reply.ok()) << Describe(reply);
  return reply.ok() && reply->isolation.Text("level") == "namespaces";
}

namespace {

class CallTest : public LevelTest {};
KE_TEST_AT_ALL_LEVELS(CallTest);

TEST_P(CallTest, TheAnswerIsWhatTheFunctionReturned) {
  const auto reply = Run("echo", Json::Obj({{"text", "ä\n\"€\""}, {"n", 1.5}}));
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_EQ(reply->value["got"].Dump(), "{\"n\":1.5,\"text\":\"ä\\n\\\"€\\\"\"}");
  EXPECT_GT(reply->seconds, 0);
  EXPECT_LT(reply->seconds, 30);
  EXPECT_GT(reply->peak_kb, 50000);
  EXPECT_LT(reply->peak_kb, 4000000);
}

TEST_P(CallTest, TheReadyMessageNamesVersions) {
  ASSERT_TRUE(Run("echo").ok());
  const Json info = worker()->ready_info();
  for (const char* name : {"python", "torch", "triton"}) {
    EXPECT_THAT(info.Text(name), ::testing::ContainsRegex("^[0-9]+\\.[0-9]+")) << name;
  }
  EXPECT_EQ(info.Text("isolation"), HasNamespaces() ? "namespaces" : "subreaper");
}

TEST_P(CallTest, ProgressComesBeforeTheAnswer) {
  Pending pending(worker(), CallOf("tell_progress"));
  ASSERT_TRUE(pending.Get().ok());
  ASSERT_EQ(pending.progress().size(), 2U);
  EXPECT_EQ(pending.progress()[0].Dump(), R"({"step":1,"text":"one"})");
}

TEST_P(CallTest, APlannedErrorKeepsItsClassAndMessage) {
  const auto reply = Run("raise_planned", Json::Obj({{"class", "validation"}, {"message", "m ü"}}));
  EXPECT_EQ(Describe(reply), "validation: m ü");
  EXPECT_EQ(reply.error().exit_code, kExitBadInput);
  EXPECT_EQ(Describe(Run("raise_planned", Json::Obj({{"class", "oops"}, {"message", "m"}}))),
            "internal: ValueError: unknown error class 'oops'");
}

TEST_P(CallTest, AnyOtherExceptionIsOneLine) {
  EXPECT_EQ(Describe(Run("raise_unplanned")), "internal: ValueError: first second line");
  EXPECT_EQ(Describe(Run("raise_odd")), "internal: Odd: (no text)");
  EXPECT_EQ(Describe(Run("exit_politely")), "internal: SystemExit: 0");
}

TEST_P(CallTest, AnExitIsNoAnswer) {
  EXPECT_EQ(Describe(Run("exit_at_once")),
            "internal: the child process exited with status 0 before it answered");
}

TEST_P(CallTest, ACrashIsNamedByItsSignal) {
  EXPECT_EQ(Describe(Run("crash")),
            "internal: the child process died by signal 11 (Segmentation fault)");
}

TEST_P(CallTest, AMissingModuleOrFunctionIsTheCallersError) {
  EXPECT_THAT(Describe(Run("no_such")),
              StartsWith("validation: the Python module probe_calls has no function no_such"));
  WorkerCall call = CallOf("f");
  call.module = "no.such.module";
  EXPECT_THAT(Describe(Run(call)), StartsWith("validation: there is no Python module no.such.mod"));
}

TEST_P(CallTest, ABadCallIsRefusedWithoutAChild) {
  WorkerCall limits = CallOf("echo");
  limits.limits = Json::Obj({{"memory", 1}});
  EXPECT_THAT(Describe(Run(limits)), StartsWith("validation: unknown limit 'memory'"));
  WorkerCall deadline = CallOf("echo");
  deadline.deadline_s = 0;
  EXPECT_THAT(Describe(Run(deadline)), StartsWith("validation: the call's deadline_s must be"));
  WorkerCall scratch = CallOf("echo");
  scratch.scratch = "relative";
  EXPECT_THAT(Describe(Run(scratch)), StartsWith("validation: the call's scratch folder must be"));
  WorkerCall root = CallOf("echo");
  root.scratch = "/";
  EXPECT_THAT(Describe(Run(root)), HasSubstr("would make too much writable"));
}

TEST_P(CallTest, WhatIsNotJsonIsInvalidOutput) {
  const auto kind = [this](const char* name) {
    return Describe(Run("return_kind", Json::Obj({{"kind", name}})));
  };
  EXPECT_EQ(kind("list"), "invalid_output: probe_calls.return_kind returned list, not a dict");
  EXPECT_EQ(kind("none"), "invalid_output: probe_calls.return_kind returned NoneType, not a dict");
  EXPECT_THAT(kind("set"), HasSubstr("a value of type set"));
  EXPECT_THAT(kind("key"), HasSubstr("a key of type int"));
  EXPECT_THAT(kind("deep"), HasSubstr("more than 200 levels deep"));
}

TEST_P(CallTest, NumbersAndTextArriveAsStrictJson) {
  EXPECT_EQ(Describe(Run("return_kind", Json::Obj({{"kind", "numbers"}}))),
            "ok: {\"big\":1.1805916207174113e+21,\"inf\":null,\"max\":9223372036854775807,"
            "\"nan\":null}");
  const auto text = Run("return_kind", Json::Obj({{"kind", "text"}}));
  ASSERT_TRUE(text.ok()) << Describe(text);
  EXPECT_EQ(text->value.Text("lone"), "a?b");
  EXPECT_EQ(text->value.Text("line"), "x\ny\u2028z");
  EXPECT_EQ(text->value.Text("nul"), std::string(1, '\0'));
}

TEST_P(CallTest, AnAnswerMayBeLongButNotEndless) {
  const auto whole = Run("return_kind", Json::Obj({{"kind", "huge"}, {"mib", 8}}));
  ASSERT_TRUE(whole.ok()) << Describe(whole);
  EXPECT_EQ(whole->value.Text("text").size(), size_t{8} << 20U);
  EXPECT_THAT(Describe(Run("return_kind", Json::Obj({{"kind", "huge"}, {"mib", 70}}))),
              HasSubstr("invalid_output: probe_calls.return_kind returned 70 MiB long"));
}

TEST_P(CallTest, AFloodOfOutputIsSwallowed) {
  EXPECT_EQ(Describe(Run("flood", Json::Obj({{"mib", 32}}))), "ok: {\"printed\":true}");
  EXPECT_EQ(Describe(Run("fail_after_flood", Json::Obj({{"mib", 4}}))),
            "internal: ValueError: after the flood");
  EXPECT_EQ(Describe(Run("flood_for_ever")), "invalid_output: the child printed more than 256 MiB");
}

TEST_P(CallTest, PrintedProtocolLinesChangeNothing) {
  const auto request = [](bool all, bool exit) {
    return Json::Obj({{"id", 1}, {"all", all}, {"exit", exit}});
  };
  EXPECT_EQ(Describe(Run("forge", request(false, false))), "ok: {\"forged\":false,\"written\":[]}");
  EXPECT_EQ(Describe(Run("forge", request(false, true))),
            "internal: the child process exited with status 0 before it answered");
  EXPECT_EQ(Describe(Run("forge", request(true, true))),
            "invalid_output: the code wrote into the pipe that carries its answer");
}

TEST_P(CallTest, TheDeadlineEndsALoop) {
  EXPECT_EQ(Describe(Run("loop", Json::Obj(), 0.3)), "timeout: the call did not end within 0.3 s");
  EXPECT_EQ(Describe(Run("ignore_signals_and_loop", Json::Obj(), 0.3)),
            "timeout: the call did not end within 0.3 s");
}

TEST_P(CallTest, ACallCanBeCancelledWhileItRuns) {
  Pending pending(worker(), CallOf("loop", Json::Obj(), 600));
  ASSERT_TRUE(pending.WaitForProgress());
  worker()->Cancel(pending.id());
  EXPECT_EQ(Describe(pending.Get()), "cancelled: the call was cancelled");
}

TEST_P(CallTest, EveryCallHasAFreshInterpreter) {
  EXPECT_EQ(Describe(Run("pollute")), "ok: {\"polluted\":false}");
  EXPECT_EQ(Describe(Run("pollute")), "ok: {\"polluted\":false}");
}

TEST_P(CallTest, CallsRunSideBySide) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<Pending>> pending;
  for (int i = 0; i < 6; ++i) {
    // Each waits for all the others: one after the other they would never end.
    WorkerCall call = CallOf(
        "meet", Json::Obj({{"folder", folder.path().string()}, {"number", i}, {"total", 6}}));
    call.scratch = folder.path();
    pending.push_back(std::make_unique<Pending>(worker(), std::move(call)));
  }
  for (const auto& one : pending) EXPECT_EQ(Describe(one->Get()), "ok: {}");
}

TEST_P(CallTest, TensorsAndKernelsWorkInAChild) {
  EXPECT_EQ(Describe(Run("multiply")), "ok: {\"finite\":true,\"fork\":false}");
  const auto compiled = Run("compile_kernel");
  ASSERT_TRUE(compiled.ok()) << Describe(compiled);
  EXPECT_TRUE(compiled->value.Flag("ptx"));
  EXPECT_GT(compiled->value.Integer("cubin"), 0);
}

TEST_P(CallTest, SessionsKeepTheirState) {
  WorkerCall call = CallOf("count");
  call.session = "keeps";
  const auto first = Run(call);
  ASSERT_TRUE(first.ok()) << Describe(first);
  EXPECT_EQ(first->value.Integer("count"), 1);
  EXPECT_EQ(first->value.Text("session"), "keeps");
  const auto second = Run(call);
  ASSERT_TRUE(second.ok()) << Describe(second);
  EXPECT_EQ(second->value.Integer("count"), 2);
  EXPECT_EQ(second->value.Integer("pid"), first->value.Integer("pid"));
  EXPECT_GT(second->peak_kb, 50000);

  WorkerCall other = call;
  other.session = "other";
  EXPECT_EQ(Run(other)->value.Integer("count"), 1);
  worker()->CloseSession("other");
  EXPECT_EQ(Run(other)->value.Integer("count"), 1);
}

TEST_P(CallTest, ASessionsCallsAreServedInOrder) {
  WorkerCall call = CallOf("count");
  call.session = "ordered";
  std::vector<std::unique_ptr<Pending>> pending;
  for (int i = 0; i < 10; ++i) pending.push_back(std::make_unique<Pending>(worker(), call));
  for (int i = 0; i < 10; ++i) {
    const auto reply = pending[static_cast<size_t>(i)]->Get();
    ASSERT_TRUE(reply.ok()) << Describe(reply);
    EXPECT_EQ(reply->value.Integer("count"), i + 1);
  }
}

TEST_P(CallTest, ASessionIsForkedAnewAfterADeath) {
  WorkerCall call = CallOf("count");
  call.session = "mortal";
  ASSERT_EQ(Run(call)->value.Integer("count"), 1);
  WorkerCall deadly = call;
  deadly.request["die"] = true;
  Pending dying(worker(), deadly);
  Pending behind(worker(), call);
  EXPECT_EQ(Describe(dying.Get()),
            "internal: the child process exited with status 1 before it answered");
  const auto reply = behind.Get();
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_EQ(reply->value.Integer("count"), 1);

  WorkerCall looping = call;
  looping.request["loop"] = true;
  looping.deadline_s = 0.3;
  EXPECT_THAT(Describe(Run(looping)), StartsWith("timeout"));
  EXPECT_EQ(Run(call)->value.Integer("count"), 1);
}

TEST_P(CallTest, ASessionMovesWithItsScratchFolder) {
  const TemporaryFolder one;
  const TemporaryFolder two;
  WorkerCall call = CallOf("count");
  call.session = "moving";
  call.scratch = one.path();
  EXPECT_EQ(Run(call)->value.Integer("count"), 1);
  EXPECT_EQ(Run(call)->value.Integer("count"), 2);
  call.scratch = two.path();
  const auto moved = Run(call);
  ASSERT_TRUE(moved.ok()) << Describe(moved);
  EXPECT_EQ(moved->value.Integer("count"), 1);
}

TEST_P(CallTest, AQueuedSessionCallCanBeCancelled) {
  WorkerCall looping = CallOf("count", Json::Obj({{"loop", true}}), 600);
  looping.session = "queue";
  WorkerCall behind = CallOf("count");
  behind.session = "queue";
  Pending running(worker(), looping);
  Pending waiting(worker(), behind);
  worker()->Cancel(waiting.id());
  EXPECT_THAT(Describe(waiting.Get()), StartsWith("cancelled"));
  worker()->Cancel(running.id());
  EXPECT_THAT(Describe(running.Get()), StartsWith("cancelled"));
}

TEST_P(CallTest, TwoWorkersLiveSideBySide) {
  std::string pid;
  {
    Worker other(RealOptions(GetParam()));
    Pending here(worker(), CallOf("echo"));
    Pending there(&other, CallOf("echo"));
    EXPECT_TRUE(there.Get().ok());
    EXPECT_TRUE(here.Get().ok());
    EXPECT_NE(other.ready_info().Integer("pid"), worker()->ready_info().Integer("pid"));
  }
  EXPECT_TRUE(Run("echo").ok());
}

TEST_P(CallTest, AKilledZygoteFailsItsCallsAndIsReplaced) {
  Worker own(RealOptions(GetParam()));
  const std::string mark = UniqueMark();
  Pending pending(&own,
                  CallOf("leave_processes", Json::Obj({{"mark", mark}, {"stay", true}}), 600));
  ASSERT_TRUE(pending.WaitForProgress());
  EXPECT_FALSE(ProcessesMarked(mark).empty());
  kill(static_cast<pid_t>(own.ready_info().Integer("pid")), SIGKILL);
  EXPECT_THAT(Describe(pending.Get()),
              StartsWith("unavailable: the Python worker ended during the call"));
  EXPECT_TRUE(Eventually([&] { return ProcessesMarked(mark).empty(); }));
  EXPECT_TRUE(CallAndWait(&own, CallOf("echo")).ok());
}

TEST_P(CallTest, APythonWithoutTorchSaysWhatToType) {
  WorkerOptions options = RealOptions(GetParam());
  options.python = "/usr/bin/python3";
  Worker bare(options);
  const auto reply = CallAndWait(&bare, CallOf("echo"));
  if (reply.ok()) GTEST_SKIP() << "/usr/bin/python3 has PyTorch here";
  EXPECT_THAT(Describe(reply), AllOf(StartsWith("unavailable: PyTorch is not installed for "),
                                     HasSubstr("python3 -m venv")));
  EXPECT_EQ(reply.error().exit_code, kExitEnvironment);
}

}  // namespace
}  // namespace kernel_evolve::testing
