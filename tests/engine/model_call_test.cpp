// Model calls over HTTP as a run makes them: what is bound, what they cost, what is kept of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/file.hpp"
#include "core/engine/cassette.hpp"
#include "core/engine/once.hpp"
#include "tests/engine/support.hpp"

namespace kernel_evolve::test {
namespace {

using ::testing::HasSubstr;

constexpr char kGraph[] = R"(kernel_evolve: 1
name: ask
models:
  author: {needs: [tools]}
start: work
nodes:
  work: {uses: t/work, next: end}
)";

// One node that makes two calls one after the other and is done. `replies` are the endpoint's.
std::string Script(const std::string& replies, const std::string& capabilities = R"(["tools"])") {
  const std::string call = R"([{"id": "a", "kind": "llm_complete", "model": "author",
      "request": {"messages": [{"role": "user", "content": "hello"}],
                  "context": {"purpose": "test"}}}])";
  return R"({"nodes": {"t/work": {"out": [], "visits": [[{"effects": )" + call +
         R"(}, {"effects": )" + call + R"(}, {"done": {}}]]}},
      "providers": {"fake": {"capabilities": )" +
         capabilities +
         R"(, "params": {"type": "object", "properties": {"model": {"type": "string"},
             "api_key": {"type": "string", "default": "${env:KE_TEST_DEFAULT_KEY}"}},
             "additionalProperties": false},
             "replies": )" +
         replies + "}}}";
}

constexpr char kGoodReplies[] = R"([
    {"ok": {"text": "hi", "usage": {"input_tokens": 60, "output_tokens": 40, "cached_tokens": 50}},
     "call": {"attempts": 3, "seconds": 2.5, "failures": {"429": 2}}},
    {"error": {"class": "rate_limit", "message": "enough"},
     "call": {"attempts": 1, "seconds": 0.5, "failures": {"429": 1}}}])";

class ModelCalls : public testing::Test {
 protected:
  void SetUp() override { ::setenv("KE_TEST_DEFAULT_KEY", "sk-default", 1); }
  void TearDown() override {
    ::unsetenv("KE_TEST_DEFAULT_KEY");
    ::unsetenv("KE_TEST_KEY");
  }

  RunOutcome Run(World& world, const std::string& params) {
    const graph::Graph graph = Load(kGraph, world);
    RunSpec spec = SpecFor(graph, world, folder_.path() / "run");
    spec.models["author"].params = J(params);
    return RunIn(spec, world);
  }

  std::string Refusal(const std::string& params, const std::string& capabilities = R"(["tools"])") {
    World world(Script("[]", capabilities));
    const RunOutcome outcome = Run(world, params);
    EXPECT_EQ(outcome.status, "failed");
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run" / kJournalName))
        << "refused before anything began";
    return outcome.reason;
  }

  const TempFolder folder_;
};

TEST_F(ModelCalls, TheReportSaysWhatEachModelTook) {
  World world(Script(kGoodReplies));
  const RunOutcome outcome =
      Run(world, R"({"model": "m", "price": {"input": 1, "output": 2, "unit": 100}})");
  EXPECT_EQ(outcome.status, "done") << outcome.reason;
  const Json& use = outcome.usage["models"]["author"];
  EXPECT_EQ(use["calls"], Json(2));
  EXPECT_EQ(use["errors"], Json(1));
  EXPECT_EQ(use["retries"], Json(2));
  EXPECT_EQ(use["input_tokens"], Json(60));
  EXPECT_EQ(use["cached_tokens"], Json(50));
  EXPECT_EQ(use["cost"], Json(1.4));
  EXPECT_EQ(use["seconds"], Json(3.0));
  EXPECT_EQ(use["longest_s"], Json(2.5));
  EXPECT_EQ(use["failures"]["429"], Json(3));
}

TEST_F(ModelCalls, ANodeSeesNothingThatDependsOnTheClock) {
  World world(Script(kGoodReplies));
  Run(world, R"({"model": "m"})");
  EXPECT_FALSE(world.trace.Has("attempts")) << world.trace.text();
  EXPECT_TRUE(world.trace.Has("rate_limit")) << world.trace.text();
}

TEST_F(ModelCalls, TheHostsKeysDoNotReachTheCodec) {
  World world(Script(kGoodReplies));
  const RunOutcome outcome = Run(world, R"({"model": "m", "limits": {"idle_timeout": "7s"},
      "sampling": {"temperature": 0.5}, "retry": {"attempts": 2}})");
  EXPECT_EQ(outcome.status, "done") << outcome.reason;
  ASSERT_EQ(world.model_calls.size(), 2U);
  EXPECT_EQ(world.model_calls[0].options.http.idle_timeout_s, 7);
  EXPECT_EQ(world.model_calls[0].options.sampling.Dump(), R"({"temperature":0.5})");
}

TEST_F(ModelCalls, SecretsOfTheProfileAndOfDefaultsAreHandedOver) {
  ::setenv("KE_TEST_KEY", "sk-of-the-profile", 1);
  World world(Script(kGoodReplies));
  Run(world, R"({"model": "${env:KE_TEST_KEY}"})");
  ASSERT_EQ(world.model_calls.size(), 2U);
  EXPECT_EQ(*world.model_calls[0].secrets.Expand("${env:KE_TEST_KEY} ${env:KE_TEST_DEFAULT_KEY}"),
            "sk-of-the-profile sk-default");
}

TEST_F(ModelCalls, AMissingSecretIsASentenceBeforeAnythingBegins) {
  EXPECT_EQ(Refusal(R"({"model": "${env:KE_TEST_KEY}"})"),
            "the model 'author' needs the environment variable KE_TEST_KEY, which is not set; set "
            "it and run again");
}

TEST_F(ModelCalls, AModelWithoutFunctionCallingIsRefused) {
  EXPECT_EQ(Refusal("{}", R"(["streaming"])"),
            "the model 'author' needs 'tools', which the provider 'fake' cannot do; bind it to "
            "another one");
  EXPECT_THAT(Refusal(R"({"capabilities": ["streaming"]})"),
              HasSubstr("which its entry in the profile (capabilities) leaves out"));
}

TEST_F(ModelCalls, AMistakeInTheHostsKeysIsRefused) {
  EXPECT_THAT(Refusal(R"({"limits": {"timout": "5m"}})"), HasSubstr("did you mean 'timeout'?"));
  EXPECT_THAT(Refusal(R"({"nonsense": 1})"), HasSubstr("nonsense"));
}

TEST_F(ModelCalls, AnInterruptCancelsThoseInFlight) {
  World world(Script(R"(["hang"])"));
  world.interrupted = true;
  const RunOutcome outcome = Run(world, R"({"model": "m"})");
  EXPECT_EQ(outcome.status, "interrupted");
}

TEST_F(ModelCalls, ACassetteHoldsThemInTheOrderOfAsking) {
  World world(Script(kGoodReplies));
  Run(world, R"({"model": "m"})");
  const Result<Json> cassette = CassetteOf(folder_.path() / "run" / kJournalName);
  ASSERT_TRUE(cassette) << cassette.error().message;
  const Json& exchanges = (*cassette)["exchanges"];
  ASSERT_EQ(exchanges.size(), 2U);
  const Json& first = exchanges.array()[0];
  EXPECT_EQ(first["model"], Json("author"));
  EXPECT_EQ(first["purpose"], Json("test"));
  EXPECT_EQ(first["response"]["text"], Json("hi"));
  EXPECT_EQ(exchanges.array()[1]["error"]["class"], Json("rate_limit"));
  EXPECT_EQ((*cassette)["seed"], Json(7));
}

TEST(RequestHash, IsOfWhatTheModelIsShown) {
  const Json request =
      J(R"({"messages": [{"role": "user", "content": "a"}], "context": {"x": 1}})");
  Json other = request;
  other["context"]["x"] = 2;
  EXPECT_EQ(RequestHash(request), RequestHash(other));
  other["messages"].array()[0]["content"] = "b";
  EXPECT_NE(RequestHash(request), RequestHash(other));
}

TEST(CompleteOnce, CallsAModelWithoutARun) {
  World world(R"({"providers": {"fake": {"capabilities": [], "replies": [
      {"ok": {"text": "hi"}, "call": {"seconds": 1.5}}]}}})");
  const TempFolder folder;
  const ModelReply reply =
      CompleteOnce("author", {"fake", Json::Obj(), {}}, J(R"({"messages": []})"), world.outside(),
                   world, folder.path(), world.interrupted);
  ASSERT_TRUE(reply.response) << reply.response.error().message;
  EXPECT_EQ(reply.response->Text("text"), "hi");
  EXPECT_EQ(reply.call["seconds"], Json(1.5));
}

}  // namespace
}  // namespace kernel_evolve::test
