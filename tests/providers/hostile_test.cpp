// Answers of a service that is hostile or badly broken. Each is small beside what the host lets
// through and must end as a response or a planned error, with the stack whole and after a few
// passes over the bytes: all model calls share one thread. A codec that reads one of them again for
// each of its parts runs into the test's time limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/providers/codec_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::HasSubstr;

constexpr size_t kDeep = 200000;  // levels; about 100 bytes of stack each would do

std::string Repeat(const std::string& text, size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string Nest(const std::string& open, const std::string& inner, const std::string& close) {
  return Repeat(open, kDeep) + inner + Repeat(close, kDeep);
}

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

std::string Delta(const std::string& delta) {
  return Event(R"({"choices":[{"delta":)" + delta + "}]}");
}

std::string Quoted(const std::string& text) { return Json(text).Dump(); }

// A stream of the given deltas that ends well.
std::string Stream(const std::string& deltas) {
  return deltas + Event(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})") + Event("[DONE]");
}

std::string TextStream(const std::string& text) {
  return Stream(Delta(R"({"content":)" + Quoted(text) + "}"));
}

std::string CallDelta(size_t index, const std::string& id, const std::string& arguments) {
  return Delta(R"({"tool_calls":[{"index":)" + std::to_string(index) + R"(,"id":")" + id +
               R"(","function":{"name":"get_weather","arguments":)" + arguments + "}}]}");
}

class HostileTest : public testing::Test {
 protected:
  Json Outcome(const std::string& body, int status = 200, const std::string& provider = "openai",
               bool complete = true, const std::vector<size_t>& cuts = {4093}) {
    WireCase wire;
    wire.provider = provider;
    wire.status = status;
    wire.body = body;
    wire.expect = Json::Obj();
    const auto codec = codecs_.Make(provider, Json());
    if (!codec) return Json::Obj({{"broken", codec.error().message}});
    return Feed(**codec, wire, cuts, complete).outcome;
  }
  // "class: message" of an error, "" of a response.
  std::string Refusal(const std::string& body, int status = 200,
                      const std::string& provider = "openai") {
    const Json outcome = Outcome(body, status, provider);
    if (outcome.contains("response")) return "";
    return outcome["error"].Text("class") + ": " + outcome["error"].Text("message");
  }

  Codecs codecs_;
};

TEST_F(HostileTest, ANestedEventIsNoJson) {
  const std::string deep = Nest("[", "", "]");
  EXPECT_THAT(Refusal(Stream(CallDelta(0, "a", R"({"a":)" + deep + "}"))),
              HasSubstr("invalid_output: the endpoint https://api.test/v1/chat/completions sent an "
                        "event that is no JSON object"));
  EXPECT_THAT(Refusal(Event(R"({"type":"content_block_start","content_block":{"type":"tool_use",
                                "id":"t","name":"get_weather","input":{"a":)" +
                            deep + "}}}") +
                          Event(R"({"type":"message_stop"})"),
                      200, "anthropic"),
              HasSubstr("invalid_output: "));
}

TEST_F(HostileTest, ANestedBodyIsNoJson) {
  EXPECT_THAT(Refusal(R"({"choices":[{"message":{"content":)" +
                      Nest(R"([{"text":)", R"("x")", "}]") + "}}]}"),
              HasSubstr("invalid_output: "));
  EXPECT_THAT(Refusal(R"({"error":{"message":)" + Nest("[", "", "]") + "}}", 400),
              HasSubstr("validation: "));
}

TEST_F(HostileTest, NestedArgumentsAreMalformed) {
  const std::string arguments = R"({"a":)" + Nest("[", "", "]") + "}";
  const Json outcome = Outcome(Stream(CallDelta(0, "a", Quoted(arguments))));
  ASSERT_EQ(outcome["response"]["tool_calls"].size(), 1U) << outcome.Dump().substr(0, 300);
  const Json& call = outcome["response"]["tool_calls"].array()[0];
  EXPECT_EQ(call["arguments"], Json::Obj());
  EXPECT_EQ(call.Text("malformed"), arguments);
}

TEST_F(HostileTest, ANestedLeakedCallStaysText) {
  const std::string text = R"(<tool_call>{"name":"get_weather","arguments":{"a":)" +
                           Nest("[", "", "]") + "}}</tool_call>";
  const Json outcome = Outcome(TextStream(text));
  EXPECT_EQ(outcome["response"].Text("text"), text);
  EXPECT_EQ(outcome["response"]["tool_calls"].size(), 0U);
}

// What real tools take is far from the bound.
TEST_F(HostileTest, ArgumentsOfFiftyLevelsAreRead) {
  const std::string arguments = R"({"a":)" + Repeat("[", 50) + Repeat("]", 50) + "}";
  const Json outcome = Outcome(Stream(CallDelta(0, "a", arguments)));
  ASSERT_EQ(outcome["response"]["tool_calls"].size(), 1U) << outcome.Dump().substr(0, 300);
  EXPECT_EQ(outcome["response"]["tool_calls"].array()[0]["arguments"].Dump(), arguments);
}

TEST_F(HostileTest, MarksWithoutAValueStayText) {
  for (const char* mark :
       {"<tool_call>{", "```json\n{", "[TOOL_CALLS][", "<function=get_weather>{",
        "<function=get_weather><parameter=city>", "<function=", "<｜tool▁sep｜>get_weather\n{"}) {
    const std::string text = Repeat(mark, 150000);
    const Json outcome = Outcome(TextStream(text));
    EXPECT_EQ(outcome["response"]["tool_calls"].size(), 0U) << mark;
    EXPECT_EQ(outcome["response"].Text("text").size(), text.size()) << mark;
  }
}

// A model that tries a few times before it gets one right.
TEST_F(HostileTest, ACallBehindBrokenOnesIsStillFound) {
  const std::string text = Repeat("<tool_call>{\"name\": \n", 8) +
                           R"(<tool_call>{"name":"get_weather","arguments":{"city":"Bern"}})";
  const Json outcome = Outcome(TextStream(text));
  ASSERT_EQ(outcome["response"]["tool_calls"].size(), 1U) << outcome.Dump();
  EXPECT_EQ(outcome["response"]["tool_calls"].array()[0]["arguments"].Text("city"), "Bern");
}

TEST_F(HostileTest, MoreToolCallsThanAnAnswerHoldsAreRefused) {
  std::string same;
  std::string distinct;
  std::string without_index;
  for (size_t i = 0; i < 5000; ++i) {
    same += CallDelta(i, "a", "\"{}\"");
    distinct += CallDelta(i, "c" + std::to_string(i), "\"{}\"");
    without_index += Delta(R"({"tool_calls":[{"id":"c)" + std::to_string(i) +
                           R"(","function":{"name":"get_weather","arguments":"{}"}}]})");
  }
  const std::string sentence = "invalid_output: the model's answer holds more than 1000 tool calls";
  EXPECT_EQ(Refusal(Stream(same)), sentence);
  EXPECT_EQ(Refusal(Stream(distinct)), sentence);
  EXPECT_EQ(Refusal(Stream(without_index)), sentence);
}

TEST_F(HostileTest, ArgumentsOfMoreObjectsThanCallsAreAllowedAreMalformed) {
  std::string glued;
  for (size_t i = 0; i < 100000; ++i) glued += R"({"a":)" + std::to_string(i) + "}";
  const Json outcome = Outcome(Stream(CallDelta(0, "a", Quoted(glued))));
  ASSERT_EQ(outcome["response"]["tool_calls"].size(), 1U);
  EXPECT_EQ(outcome["response"]["tool_calls"].array()[0].Text("malformed"), glued);
}

// Some servers make up an id for each delta; the call still is one.
TEST_F(HostileTest, AnIdForEachOfManyDeltasIsOneCall) {
  std::string deltas = CallDelta(0, "c0", Quoted(R"({"city":")"));
  std::string city;
  for (size_t i = 1; i < 50000; ++i) {
    deltas += CallDelta(0, "c" + std::to_string(i), "\"xxxx\"");
    city += "xxxx";
  }
  deltas += CallDelta(0, "end", Quoted("\"}"));
  const Json outcome = Outcome(Stream(deltas));
  ASSERT_EQ(outcome["response"]["tool_calls"].size(), 1U) << outcome.Dump().substr(0, 300);
  EXPECT_EQ(outcome["response"]["tool_calls"].array()[0]["arguments"].Text("city"), city);
}

TEST_F(HostileTest, ANameThatNeverEndsIsCutOff) {
  std::string deltas;
  for (size_t i = 0; i < 50000; ++i) {
    deltas += Delta(R"({"tool_calls":[{"index":0,"function":{"name":"piece)" + std::to_string(i) +
                    R"("}}]})");
  }
  const Json outcome = Outcome(Stream(deltas));
  ASSERT_EQ(outcome["response"]["tool_calls"].size(), 1U) << outcome.Dump().substr(0, 300);
  EXPECT_LT(outcome["response"]["tool_calls"].array()[0].Text("name").size(), 300U);
}

TEST_F(HostileTest, BlanksWithoutAnAnswerAreAnEmptyBody) {
  EXPECT_THAT(Refusal(Repeat("\n", 8000000)), HasSubstr("communication: "));
}

// A blank is whatever is no printed character, wherever the bytes were cut.
TEST_F(HostileTest, BlanksBeforeAnAnswerAreDroppedHoweverTheyCome) {
  const std::string answer = R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]})";
  for (const std::string& blanks :
       {std::string("\x01"), std::string("\n\x02 "), Repeat(" ", 5000)}) {
    for (const std::vector<size_t>& cuts : {std::vector<size_t>{}, {1}, {2}}) {
      EXPECT_EQ(Outcome(blanks + answer, 200, "openai", true, cuts)["response"].Text("text"), "hi");
    }
  }
}

TEST_F(HostileTest, PlainWordsInPlaceOfAnAnswerAreShown) {
  const std::string words = "upstream connect error or disconnect/reset before headers";
  for (const char* provider : {"openai", "anthropic"}) {
    EXPECT_THAT(Refusal(words, 200, provider), HasSubstr("invalid_output: the endpoint "));
    EXPECT_THAT(Refusal(words, 200, provider), HasSubstr("with what is no JSON: " + words));
  }
  // Comments alone are a stream, one that broke off.
  EXPECT_THAT(Refusal(": keep-alive\n\n: keep-alive\n\n"), HasSubstr("communication: "));
  EXPECT_EQ(Outcome(words, 200, "openai", /*complete=*/false)["error"].Text("class"),
            "communication");
}

TEST_F(HostileTest, AByteOrderMarkBeforeAWholeAnswerIsPassedOver) {
  const Json outcome = Outcome(
      "\xEF\xBB\xBF"
      R"({"choices":[{"message":{"content":"hi"},
                                                   "finish_reason":"stop"}]})");
  EXPECT_EQ(outcome["response"].Text("text"), "hi") << outcome.Dump();
}

}  // namespace
}  // namespace kernel_evolve
