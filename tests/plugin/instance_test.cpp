// Instances of real plugins, stepped by hand: this event, that outcome.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InstanceTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Instance>> Create(TypeKind kind, const std::string& name,
                                           const std::string& params = "{}") {
    const TypeInfo* type = registry_.Find(kind, name);
    EXPECT_NE(type, nullptr) << name;
    return registry_.Create(*type, ConfigOf(params), host_);
  }
  std::unique_ptr<Instance> Node(const std::string& name, const std::string& params = "{}") {
    auto made = Create(TypeKind::kNode, name, params);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made.ok() ? *std::move(made) : nullptr;
  }

  std::shared_ptr<RecordingHost> host_ = std::make_shared<RecordingHost>();
  Registry registry_ = Registry::Scan({{GOOD_PLUGINS, "the test", true},
                                       {Bad("verbatim"), "the test", true},
                                       {Bad("twice_a"), "the test", true}});
};

TEST_F(InstanceTest, TheClassFaceSeesTheHostAndAsksForEffects) {
  const auto tour = Node("test/tour");
  const Json asked = StepOk(*tour, R"({"type": "start"})");
  EXPECT_THAT(host_->said, ElementsAre("load test/tour", "create test/tour", "step test/tour",
                                       "log 2 about to start", R"(progress {"text":"half-way"})",
                                       R"(usage {"input_tokens":7})"));
  ASSERT_EQ(asked["effects"].size(), 6U);
  EXPECT_EQ(asked["effects"].array()[0],
            Parsed(R"({"id": "work", "kind": "worker_call", "module": "acme.tool",
                       "function": "run", "session": null, "deadline_s": 60.0, "limits": {},
                       "request": {"cancelled": false, "time_left_ms": 1500, "secret": "s3cret",
                                   "greeting": "hello", "seed": 42, "plugin_dir": ""}})"));
  EXPECT_EQ(asked["effects"].array()[4], Parsed(R"({"id": "dice", "kind": "random", "count": 3})"));

  const Json done = StepOk(*tour, R"({"type": "results", "results": {"now": {"ok": 12.5}}})");
  EXPECT_EQ(done, Parsed(R"({"done": {"out": {"saw": {"now": {"ok": 12.5}}},
                                      "result": {"ok": true}}})"));
}

TEST_F(InstanceTest, AFinishedInstanceTakesNoMoreEvents) {
  const auto c = Node("test/c");
  EXPECT_TRUE(StepOk(*c, R"({"type": "start"})").contains("effects"));
  EXPECT_TRUE(StepOk(*c, R"({"type": "results", "results": {}})").contains("done"));
  EXPECT_EQ(c->Step(Json::Obj()).error().message,
            "the node 'test/c' of plugin c_node has finished; it takes no more events");
}

TEST_F(InstanceTest, ACPluginNeedsNothingButTheHeader) {
  const auto c = Node("test/c");
  EXPECT_THAT(host_->said, testing::Contains("log 2 made in C"));
  EXPECT_EQ(StepOk(*c, "{}"), Parsed(R"({"effects": [{"id": "t", "kind": "now"}]})"));
}

TEST_F(InstanceTest, APluginOfANewerMinorWithLongerTablesIsUnderstood) {
  EXPECT_EQ(StepOk(*Node("test/wide_one"), "{}"), Parsed(R"({"done": {}})"));
  EXPECT_EQ(StepOk(*Node("test/wide_two"), "{}"), Parsed(R"({"done": {}})"));
}

TEST_F(InstanceTest, ProvidersAndEvaluatorsEndWithTheirResult) {
  auto echo = Create(TypeKind::kProvider, "echo");
  EXPECT_EQ(StepOk(**echo, R"({"type": "start", "request": {"question": "why?"}})"),
            Parsed(R"({"done": {"response": {"text": "why?"}}})"));
  auto yes = Create(TypeKind::kEvaluator, "yes");
  EXPECT_EQ(StepOk(**yes, R"({"type": "start", "request": {"asked": "full"}})"),
            Parsed(R"({"done": {"verdict": {"ok": true}}})"));
}

TEST_F(InstanceTest, TheErrorOfAnEffectBecomesTheNodesErrorOfTheSameClass) {
  const auto node = Node("test/pass_on");
  StepOk(*node, R"({"type": "start"})");
  EXPECT_EQ(StepOk(*node, R"({"type": "results", "results": {"n": {"error":
                              {"class": "timeout", "message": "too slow"}}}})"),
            Parsed(R"({"error": {"class": "timeout", "message": "too slow"}})"));
}

TEST_F(InstanceTest, ParamsAreCheckedBeforeThePluginIsEvenLoaded) {
  const auto made = Create(TypeKind::kNode, "test/pass_on", R"({"speed": 3})");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "with.speed: unknown parameter; none is taken here");
  EXPECT_TRUE(host_->said.empty());
}

TEST_F(InstanceTest, APluginMayRefuseItsParamsWithItsOwnSentence) {
  const auto made = Create(TypeKind::kNode, "test/thrower", R"({"create": "refuse"})");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "with.create: 'refuse' is refused");
  EXPECT_EQ(made.error().exit_code, kExitBadInput);
}

TEST_F(InstanceTest, AnExceptionInCreateNamesThePlugin) {
  const auto thrown = Create(TypeKind::kNode, "test/thrower", R"({"create": "throw"})");
  ASSERT_FALSE(thrown.ok());
  EXPECT_EQ(thrown.error().error_class, ErrorClass::kInternal);
  EXPECT_EQ(thrown.error().message,
            "the node 'test/thrower' of plugin class_nodes could not be created: no luck");
  EXPECT_EQ(Create(TypeKind::kNode, "test/thrower", R"({"create": "int"})").error().message,
            "the node 'test/thrower' of plugin class_nodes could not be created: it threw what is "
            "not a std::exception");
}

TEST_F(InstanceTest, AnExceptionInStepBecomesAnErrorClass) {
  const auto step = [this](const std::string& how) {
    return Node("test/thrower", R"({"step": ")" + how + R"("})")->Step(Json::Obj());
  };
  EXPECT_EQ(*step("plan"), Parsed(R"({"error": {"class": "rate_limit",
                                      "message": "too many questions; wait a minute"}})"));
  EXPECT_EQ(step("throw").error().error_class, ErrorClass::kInternal);
  EXPECT_EQ(step("throw").error().message,
            "the node 'test/thrower' of plugin class_nodes failed: no luck");
  EXPECT_EQ(step("int").error().message,
            "the node 'test/thrower' of plugin class_nodes failed: it threw what is not a "
            "std::exception");
  EXPECT_EQ(step("class").error().error_class, ErrorClass::kInvalidOutput);
  EXPECT_THAT(step("class").error().message,
              HasSubstr("'sadness' is not one of the error classes"));
}

TEST_F(InstanceTest, AFailureWithoutAWordIsStillASentence) {
  EXPECT_EQ(Create(TypeKind::kNode, "test/twice").error().message,
            "the node 'test/twice' of plugin twice_a could not be created and did not say why");
}

TEST_F(InstanceTest, AnOutcomeThatBreaksTheProtocolNamesThePlugin) {
  const auto answer = [this](const Json& text, bool fail = false) {
    auto made = registry_.Create(
        *registry_.Find(TypeKind::kNode, "test/verbatim"),
        Json::Obj({{"params", Json::Obj({{"answer", text}, {"fail", fail}})}}), host_);
    const Result<Json> outcome = (*made)->Step(Json::Obj());
    EXPECT_FALSE(outcome.ok());
    return outcome.error();
  };
  const std::string before =
      "the node 'test/verbatim' of plugin verbatim gave an outcome that breaks the step protocol: ";
  EXPECT_THAT(answer("").message, HasSubstr(before + "not valid JSON"));
  EXPECT_THAT(answer("garbage").message, HasSubstr(before + "not valid JSON: at line 1"));
  EXPECT_EQ(answer("{}").message,
            before + "outcome: expected exactly one of effects, done and error");
  EXPECT_EQ(answer("{}").error_class, ErrorClass::kInvalidOutput);
  EXPECT_EQ(answer(R"({"class": "auth", "message": "no key"})", true).error_class,
            ErrorClass::kAuth);
  EXPECT_EQ(answer(R"({"class": "auth", "message": "no key"})", true).message,
            "the node 'test/verbatim' of plugin verbatim failed: no key");
  EXPECT_EQ(answer("garbage", true).message,
            "the node 'test/verbatim' of plugin verbatim failed and did not say why");
}

TEST_F(InstanceTest, TheCoroutineFaceRunsOnTheSameProtocol) {
  const auto author = Node("test/author");
  Json asked = StepOk(*author, R"({"type": "start", "in": {"words": ["a", "b"]}})");
  EXPECT_EQ(asked, Parsed(R"({"effects": [{"id": "e1", "kind": "llm_complete", "model": "author",
                                           "request": {"text": "a"}}]})"));
  asked = StepOk(*author, R"({"type": "results", "results": {"e1": {"ok": {"count": 3}}}})");
  EXPECT_EQ(asked["effects"].array()[0]["request"].Text("text"), "b");
  asked = StepOk(*author, R"({"type": "results", "results": {"e2": {"ok": {"count": 4}}}})");
  ASSERT_EQ(asked["effects"].size(), 2U);
  const std::string now = asked["effects"].array()[0].Text("id");
  const std::string judged = asked["effects"].array()[1].Text("id");
  const Json done =
      StepOk(*author, R"({"type": "results", "results": {")" + now + R"(": {"ok": 5}, ")" + judged +
                          R"(": {"error": {"class": "timeout", "message": "x"}}}})");
  EXPECT_EQ(done, Parsed(R"({"done": {"out": {"total": 7, "now": 5},
                                      "result": {"judged": false}}})"));
}

TEST_F(InstanceTest, ACoroutineTakesAFailedEffectAsAValueOrAsAnException) {
  const auto careful = Node("test/careful");
  StepOk(*careful, R"({"type": "start"})");
  const char* failed = R"({"type": "results", "results": {")";
  const char* why = R"(": {"error": {"class": "cancelled", "message": "stopped"}}}})";
  const Json again = StepOk(*careful, std::string(failed) + "e1" + why);
  EXPECT_EQ(again["effects"].array()[0].Number("seconds"), 2.0);
  EXPECT_EQ(StepOk(*careful, std::string(failed) + "e2" + why),
            Parsed(R"({"error": {"class": "cancelled", "message": "stopped"}})"));
}

TEST_F(InstanceTest, ASuspendedCoroutineIsDestroyedWithItsInstance) {
  StepOk(*Node("test/author"), R"({"type": "start", "in": {"words": ["a"]}})");
}

// g++ would bind both to one variable if the build let it.
TEST_F(InstanceTest, TwoPluginsDoNotShareAnInlineVariable) {
  const auto count = [this](const char* twin, const char* which) {
    return StepOk(*Node(twin), "{}")["done"]["out"].Integer(which);
  };
  for (const char* which : {"variable", "local"}) {
    const int64_t before = count("twin_b", which);
    count("twin_a", which);
    count("twin_a", which);
    EXPECT_EQ(count("twin_b", which), before + 1) << which;
  }
}

TEST_F(InstanceTest, ManyThreadsMayCreateAndStepInstancesOfTheirOwn) {
  const TypeInfo* type = registry_.Find(TypeKind::kNode, "test/pass_on");
  std::atomic<int> asked = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto made = registry_.Create(*type, Json::Obj(), nullptr);
      if (made.ok() && (*made)->Step(Json::Obj({{"type", "start"}})).ok()) ++asked;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asked, 8);
}

TEST_F(InstanceTest, HostServicesHaveHarmlessDefaults) {
  HostServices plain;
  EXPECT_FALSE(plain.Cancelled());
  EXPECT_EQ(plain.TimeLeftMs(), -1);
  EXPECT_EQ(plain.Secret("key"), std::nullopt);
}

}  // namespace
}  // namespace kernel_evolve
