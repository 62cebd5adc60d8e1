// Codecs across the boundary: what the host takes from one, and what it says of one that breaks the
// protocol. What the shipped ones make of real bytes is in tests/providers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::HasSubstr;

class CodecTest : public testing::Test {
 protected:
  // The fixture that says what `params` tell it to, ' standing for ".
  std::unique_ptr<Codec> Rude(const Json& params) {
    auto made =
        registry_.CreateCodec(registry_.types().at(0), Json::Obj({{"params", params}}), nullptr);
    EXPECT_TRUE(made.ok());
    return made.ok() ? *std::move(made) : nullptr;
  }
  Result<EncodedRequest> Encoded(const std::string& head) {
    return Rude(Json::Obj({{"head", head}, {"body", "bytes"}}))->Encode(Json::Obj());
  }
  Result<Json> Finished(const std::string& text) {
    return Rude(Json::Obj({{"finish", text}}))->Finish(true);
  }

  Registry registry_ = ScanOnly(Good("rude_codec"));
};

constexpr char kBreaks[] = "the provider 'rude' of plugin rude_codec breaks the codec protocol in ";

TEST_F(CodecTest, ARequestIsTakenAsItIs) {
  const auto encoded = Encoded(
      "{'method': 'POST', 'url': 'https://h/${env:A}', 'headers': {'X-Key': '${env:KEY}'}}");
  ASSERT_TRUE(encoded.ok()) << encoded.error().message;
  EXPECT_EQ(encoded->method, "POST");
  EXPECT_EQ(encoded->url, "https://h/${env:A}");
  ASSERT_EQ(encoded->headers.size(), 1U);
  EXPECT_EQ(encoded->headers[0].second, "${env:KEY}");
  EXPECT_EQ(encoded->body, "bytes");
}

TEST_F(CodecTest, ARequestThatIsNoneNamesThePlugin) {
  for (const char* head : {"{'url': 'https://h', 'headers': {}}", "{'method': 'GET', 'url': 'h'}",
                           "{'method': 'GET', 'headers': {}}", "[]", "7"}) {
    const auto encoded = Encoded(head);
    ASSERT_FALSE(encoded.ok()) << head;
    EXPECT_EQ(encoded.error().message,
              std::string(kBreaks) + "encode: a request has a method, a url and headers");
    EXPECT_EQ(encoded.error().error_class, ErrorClass::kInternal);
  }
  EXPECT_EQ(Encoded("{'method': 'GET', 'url': 'h', 'headers': {'X': 1}}").error().message,
            std::string(kBreaks) + "encode: the header 'X' is no text");
  EXPECT_THAT(Encoded("{'method'").error().message,
              HasSubstr(std::string(kBreaks) + "encode: not valid JSON"));
}

TEST_F(CodecTest, APlannedRefusalIsTheCodecsOwnSentence) {
  const auto encoded = Encoded("!{'class': 'validation', 'message': 'no user message'}");
  ASSERT_FALSE(encoded.ok());
  EXPECT_EQ(encoded.error().message, "no user message");
  EXPECT_EQ(encoded.error().error_class, ErrorClass::kValidation);
}

TEST_F(CodecTest, AnyOtherFailureNamesThePlugin) {
  const std::string failed = "the provider 'rude' of plugin rude_codec failed";
  EXPECT_EQ(Encoded("!{'class': 'internal', 'message': 'a bug'}").error().message,
            failed + ": a bug");
  EXPECT_THAT(Encoded("!").error().message, HasSubstr(failed));
  EXPECT_THAT(Rude(Json::Obj({{"begin", "!"}}))->Begin(Json::Obj()).error().message,
              HasSubstr(failed));
  std::string events;
  EXPECT_THAT(Rude(Json::Obj({{"feed", "!"}}))->Feed("x", &events).error().message,
              HasSubstr(failed));
  EXPECT_THAT(Finished("!").error().message, HasSubstr(failed));
}

TEST_F(CodecTest, EventsAreAppended) {
  const auto codec = Rude(Json::Obj({{"feed", "{'type': 'end'}"}}));
  std::string events = "before ";
  ASSERT_TRUE(codec->Feed("x", &events).ok());
  EXPECT_EQ(events, R"(before {"type": "end"})");
}

TEST_F(CodecTest, AnOutcomeIsAResponseOrAnError) {
  EXPECT_EQ(*Finished("{'response': {'text': 'hi'}}"), Parsed(R"({"response": {"text": "hi"}})"));
  EXPECT_EQ(*Finished("{'error': {'class': 'auth', 'message': 'no'}}"),
            Parsed(R"({"error": {"class": "auth", "message": "no"}})"));
}

TEST_F(CodecTest, GarbageFromFinishNamesThePlugin) {
  for (const char* text :
       {"{}", "[]", "{'response': 7}", "{'error': 'no'}", "{'error': {'class': 'auth'}}",
        "{'error': {'class': 'gremlins', 'message': 'no'}}", "{'response': {}, 'more': 1}",
        "{'response': {}, 'error': {'class': 'auth', 'message': 'no'}}"}) {
    const auto outcome = Finished(text);
    ASSERT_FALSE(outcome.ok()) << text;
    EXPECT_EQ(outcome.error().message, std::string(kBreaks) +
                                           "finish: expected either {\"response\": {...}} or "
                                           "{\"error\": {\"class\", \"message\"}}")
        << text;
    EXPECT_EQ(outcome.error().error_class, ErrorClass::kInternal);
  }
  EXPECT_THAT(Finished("").error().message, HasSubstr(std::string(kBreaks) + "finish: "));
  EXPECT_THAT(Finished("hello").error().message, HasSubstr(std::string(kBreaks) + "finish: "));
}

TEST_F(CodecTest, TakesNoSteps) {
  const auto made = registry_.Create(registry_.types().at(0), Json::Obj(), nullptr);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "the provider 'rude' of plugin rude_codec is a codec; it takes no steps");
}

TEST(ResumableProvider, IsNoCodec) {
  Registry registry = ScanOnly(Good("abi_1_0"));
  const auto made =
      registry.CreateCodec(*registry.Find(TypeKind::kProvider, "old"), Json::Obj(), nullptr);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "the provider 'old' of plugin abi_1_0 is no codec; it is driven by steps");
}

// A plugin built against an older minor of this major goes on working.
TEST(FrozenAbi, APluginOf10LoadsAndRuns) {
  Registry registry = ScanOnly(Good("abi_1_0"));
  ASSERT_TRUE(registry.errors().empty()) << registry.errors()[0].message;
  const TypeInfo* node = registry.Find(TypeKind::kNode, "test/old");
  const TypeInfo* provider = registry.Find(TypeKind::kProvider, "old");
  ASSERT_NE(node, nullptr);
  ASSERT_NE(provider, nullptr) << "the second table begins where the first one's size says";
  const auto host = std::make_shared<RecordingHost>();
  const auto old_node = registry.Create(*node, ConfigOf("{}"), host);
  ASSERT_TRUE(old_node.ok()) << old_node.error().message;
  EXPECT_EQ(StepOk(**old_node, R"({"type": "start"})"), Parsed(R"({"done": {"out": {"x": 10}}})"));
  const auto old_provider = registry.Create(*provider, ConfigOf("{}"), host);
  ASSERT_TRUE(old_provider.ok()) << old_provider.error().message;
  EXPECT_EQ(StepOk(**old_provider, R"({"type": "start"})"),
            Parsed(R"({"done": {"response": {"text": "ten"}}})"));
  EXPECT_THAT(host->said, testing::Contains("log 1 made against 1.0"));
}

}  // namespace
}  // namespace kernel_evolve
