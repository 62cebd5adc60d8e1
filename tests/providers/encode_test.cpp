// What each codec sends for a canonical request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/providers/codec_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::HasSubstr;

Json Parsed(const std::string& text) {
  const Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *json : Json();
}

Json EncodedFor(const std::string& provider, const Json& params, const Json& request) {
  static Codecs codecs;
  const Result<std::unique_ptr<Codec>> codec = codecs.Make(provider, params);
  if (!codec) return Json::Obj({{"refused", codec.error().message}});
  const Result<Json> encoded = EncodedJson(**codec, request);
  return encoded ? *encoded : Json::Obj({{"refused", encoded.error().message}});
}

Json Encoded(const std::string& provider, const std::string& params, const std::string& request) {
  return EncodedFor(provider, Parsed(params), Parsed(request));
}

void ExpectJson(const Json& actual, const std::string& expected) {
  EXPECT_EQ(actual.Dump(2), Parsed(expected).Dump(2));
}

constexpr char kShort[] = R"({"messages": [{"role": "user", "content": "Hi"}]})";

// A conversation with everything: two calls answered, one of them by an error, reasoning to echo.
constexpr char kRich[] = R"({
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Oslo and ${env:HOME}?"},
    {"role": "assistant", "content": "Let me look.", "reasoning": "Two cities.",
     "raw": {"reasoning_content": "Two cities.",
             "thinking": [{"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"}]},
     "tool_calls": [{"id": "a", "name": "get_weather", "arguments": {"city": "Oslo"}},
                    {"id": "functions.b:1", "name": "get_weather", "arguments": {}}]},
    {"role": "tool", "tool_call_id": "a", "content": "12 °C"},
    {"role": "tool", "tool_call_id": "functions.b:1", "content": ""},
    {"role": "user", "content": "Now hand it in."}],
  "tools": [{"name": "get_weather", "description": "Tells the weather.",
             "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
            {"name": "submit", "parameters": {"type": "object"}}],
  "tool_choice": "required",
  "sampling": {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "max_tokens": 100,
               "frequency_penalty": 0.1, "presence_penalty": 0.2, "stop": ["END"],
               "reasoning_effort": "low", "extra": {"custom": {"a": 1}}},
  "seed": 7, "stream": true})";

TEST(OpenAi, SendsARichConversation) {
  const Json sent = Encoded("openai", R"({"api_key": "${env:KEY}"})", kRich);
  EXPECT_EQ(sent.Text("method"), "POST");
  EXPECT_EQ(sent.Text("url"), "https://api.test/v1/chat/completions");
  ExpectJson(sent["headers"], R"({"Content-Type": "application/json",
      "Accept": "text/event-stream", "Authorization": "Bearer ${env:KEY}"})");
  ExpectJson(sent["body"], R"({
    "model": "m", "stream": true, "stream_options": {"include_usage": true},
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "Weather in Oslo and ${env:HOME}?"},
      {"role": "assistant", "content": "Let me look.", "reasoning_content": "Two cities.",
       "tool_calls": [
         {"id": "a", "type": "function",
          "function": {"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}},
         {"id": "functions.b:1", "type": "function",
          "function": {"name": "get_weather", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "a", "content": "12 °C"},
      {"role": "tool", "tool_call_id": "functions.b:1", "content": ""},
      {"role": "user", "content": "Now hand it in."}],
    "tools": [
      {"type": "function", "function": {"name": "get_weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}},
      {"type": "function", "function": {"name": "submit", "description": "",
        "parameters": {"type": "object"}}}],
    "tool_choice": "required",
    "temperature": 0.5, "top_p": 0.9, "top_k": 40, "max_tokens": 100, "frequency_penalty": 0.1,
    "presence_penalty": 0.2, "stop": ["END"], "reasoning_effort": "low", "custom": {"a": 1},
    "seed": 7})");
}

TEST(OpenAi, SendsNothingThatIsNotSet) {
  ExpectJson(Encoded("openai", R"({"stream": false})", kShort)["body"],
             R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})");
  ExpectJson(Encoded("openai", R"({"include_usage": false})",
                     R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [], "seed": null,
                         "sampling": {"temperature": null}})")["body"],
             R"({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]})");
}

TEST(OpenAi, AStreamIsSentOnlyWhereBothWantOne) {
  const std::string whole = R"({"messages": [{"role": "user", "content": "Hi"}], "stream": false})";
  const Json sent = Encoded("openai", "{}", whole);
  EXPECT_FALSE(sent["body"].contains("stream"));
  EXPECT_EQ(sent["headers"].Text("Accept"), "application/json");
}

TEST(OpenAi, TheAddressMayBeWrittenInMoreThanOneWay) {
  const auto url = [](const std::string& base) {
    return EncodedFor("openai", Json::Obj({{"base_url", base}}), Parsed(kShort)).Text("url");
  };
  EXPECT_EQ(url("http://h:8000/v1"), "http://h:8000/v1/chat/completions");
  EXPECT_EQ(url("http://h:8000/v1/"), "http://h:8000/v1/chat/completions");
  EXPECT_EQ(url("http://h/v1/chat/completions"), "http://h/v1/chat/completions");
  EXPECT_EQ(url("http://h/x/chat/completions?api-version=1"),
            "http://h/x/chat/completions?api-version=1");
}

TEST(OpenAi, AKeyIsSentWhenThereIsOne) {
  const auto headers = [](const std::string& params) {
    return Encoded("openai", params, kShort)["headers"];
  };
  EXPECT_EQ(headers("{}").Text("Authorization"), "Bearer ${env:OPENAI_API_KEY}");
  EXPECT_FALSE(headers(R"({"api_key": ""})").contains("Authorization"));
  EXPECT_FALSE(headers(R"({"api_key": "none"})").contains("Authorization"));
}

TEST(OpenAi, AProfilesHeadersReplaceTheCodecsWhateverTheirCase) {
  const Json headers = Encoded("openai", R"({"default_headers":
      {"authorization": "Basic ${env:B}", "X-Team": "kernels"}})",
                               kShort)["headers"];
  ExpectJson(headers, R"({"Content-Type": "application/json", "Accept": "text/event-stream",
                          "authorization": "Basic ${env:B}", "X-Team": "kernels"})");
  EXPECT_EQ(Encoded("openai", R"({"default_headers": {"X-Team": 7}})", kShort).Text("refused"),
            "default_headers.X-Team: expected text");
}

TEST(OpenAi, ToolChoiceTakesTheServersWords) {
  const auto choice = [](const std::string& params, const std::string& wanted) {
    Json request = Parsed(kRich);
    request["tool_choice"] = Parsed(wanted);
    return EncodedFor("openai", Parsed(params), request)["body"]["tool_choice"];
  };
  EXPECT_EQ(choice("{}", R"("auto")"), Json("auto"));
  EXPECT_EQ(choice("{}", R"("required")"), Json("required"));
  EXPECT_EQ(choice(R"({"required_tool_choice": "auto"})", R"("required")"), Json("auto"));
  ExpectJson(choice("{}", R"({"name": "submit"})"),
             R"({"type": "function", "function": {"name": "submit"}})");
}

TEST(OpenAi, QuirksAreParams) {
  const auto body = [](const std::string& params) {
    return Encoded("openai", params, kRich)["body"];
  };
  const Json renamed = body(R"({"max_tokens_key": "max_completion_tokens"})");
  EXPECT_EQ(renamed["max_completion_tokens"], Json(100));
  EXPECT_FALSE(renamed.contains("max_tokens"));
  EXPECT_EQ(body(R"({"parallel_tools": false})")["parallel_tool_calls"], Json(false));
  EXPECT_FALSE(body("{}").contains("parallel_tool_calls"));
  EXPECT_FALSE(
      body(R"({"reasoning_echo": "never"})")["messages"].array()[2].contains("reasoning_content"));
}

TEST(OpenAi, ReasoningGoesBackWithToolCallsOnlyUnlessAlways) {
  const std::string request = R"({"messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "Yes?", "raw": {"reasoning_content": "Hm."}},
      {"role": "user", "content": "Bye"}]})";
  const auto echoed = [&request](const std::string& params) {
    return Encoded("openai", params, request)["body"]["messages"].array()[1].Text(
        "reasoning_content", "none");
  };
  EXPECT_EQ(echoed("{}"), "none");
  EXPECT_EQ(echoed(R"({"reasoning_echo": "always"})"), "Hm.");
}

TEST(OpenAi, RefusesAnUnknownParameter) {
  EXPECT_THAT(Encoded("openai", R"({"temperatur": 1})", kShort).Text("refused"),
              HasSubstr("temperatur"));
}

TEST(Pangu, SpeaksTheOpenAiForm) {
  const Json sent = Encoded(
      "pangu", R"({"api_key": "${env:K}", "default_headers": {"csb-token": "${env:CSB}"}})", kRich);
  EXPECT_EQ(sent.Text("url"), "https://api.test/v1/chat/completions");
  EXPECT_EQ(sent["headers"].Text("Authorization"), "Bearer ${env:K}");
  EXPECT_EQ(sent["headers"].Text("csb-token"), "${env:CSB}");
  EXPECT_EQ(sent["body"].Dump(2), Encoded("openai", "{}", kRich)["body"].Dump(2));
}

TEST(Pangu, SendsNoKeyThatIsNotGiven) {
  EXPECT_FALSE(Encoded("pangu", "{}", kShort)["headers"].contains("Authorization"));
}

TEST(Pangu, TheDeploymentsFormHasAnotherAddressAndAnotherHeader) {
  const Json sent = Encoded("pangu", R"({"form": "deployments", "deployment": "d-1",
      "base_url": "https://pangu.test/v1/p-1/", "api_key": "${env:TOKEN}"})",
                            kShort);
  EXPECT_EQ(sent.Text("url"), "https://pangu.test/v1/p-1/deployments/d-1/chat/completions");
  EXPECT_EQ(sent["headers"].Text("X-Auth-Token"), "${env:TOKEN}");
  EXPECT_FALSE(sent["headers"].contains("Authorization"));
  EXPECT_EQ(Encoded("pangu", R"({"form": "deployments"})", kShort).Text("refused"),
            "deployment: the form 'deployments' needs the id of one");
}

constexpr char kAnthropic[] = R"({"base_url": "https://api.test"})";

TEST(Anthropic, SendsARichConversation) {
  const Json sent = Encoded("anthropic", kAnthropic, kRich);
  EXPECT_EQ(sent.Text("method"), "POST");
  EXPECT_EQ(sent.Text("url"), "https://api.test/v1/messages");
  ExpectJson(sent["headers"], R"({"Content-Type": "application/json",
      "Accept": "text/event-stream", "x-api-key": "${env:ANTHROPIC_API_KEY}",
      "anthropic-version": "2023-06-01"})");
  ExpectJson(sent["body"], R"({
    "model": "m", "stream": true, "system": "Be brief.", "max_tokens": 100,
    "messages": [
      {"role": "user",
       "content": [{"type": "text", "text": "Weather in Oslo and ${env:HOME}?"}]},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "functions_b_1", "name": "get_weather", "input": {}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": "12 °C"},
        {"type": "tool_result", "tool_use_id": "functions_b_1"},
        {"type": "text", "text": "Now hand it in."}]}],
    "tools": [
      {"name": "get_weather", "description": "Tells the weather.",
       "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
      {"name": "submit", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any"},
    "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"],
    "custom": {"a": 1}})");
}

TEST(Anthropic, SendsNothingThatIsNotSetButTheTokensThatTheServiceDemands) {
  ExpectJson(Encoded("anthropic", R"({"stream": false})", kShort)["body"], R"({"model": "m",
      "max_tokens": 8192,
      "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})");
  EXPECT_EQ(Encoded("anthropic", R"({"max_tokens": 5})", kShort)["body"]["max_tokens"], Json(5));
}

TEST(Anthropic, TheAddressMayBeWrittenInMoreThanOneWay) {
  const auto url = [](const std::string& base) {
    return EncodedFor("anthropic", Json::Obj({{"base_url", base}}), Parsed(kShort)).Text("url");
  };
  EXPECT_EQ(url("http://h/anthropic"), "http://h/anthropic/v1/messages");
  EXPECT_EQ(url("http://h/v1/"), "http://h/v1/messages");
  EXPECT_EQ(url("http://h/v1/messages"), "http://h/v1/messages");
}

TEST(Anthropic, ToolChoiceTakesTheServicesWords) {
  const auto choice = [](const std::string& params, const std::string& wanted,
                         const std::string& extra = "{}") {
    Json request = Parsed(kRich);
    request["tool_choice"] = Parsed(wanted);
    request["sampling"] = Json::Obj({{"extra", Parsed(extra)}});
    return EncodedFor("anthropic", Parsed(params), request)["body"]["tool_choice"].Dump();
  };
  EXPECT_EQ(choice("{}", R"("auto")"), R"({"type":"auto"})");
  EXPECT_EQ(choice("{}", R"({"name": "submit"})"), R"({"name":"submit","type":"tool"})");
  EXPECT_EQ(choice(R"({"required_tool_choice": "auto"})", R"("required")"), R"({"type":"auto"})");
  EXPECT_EQ(choice(R"({"parallel_tools": false})", R"("required")"),
            R"({"disable_parallel_tool_use":true,"type":"any"})");
  // A model that thinks may not be made to call a tool.
  EXPECT_EQ(choice("{}", R"("required")", R"({"thinking": {"type": "enabled"}})"),
            R"({"type":"auto"})");
  EXPECT_EQ(choice("{}", R"("required")", R"({"thinking": {"type": "disabled"}})"),
            R"({"type":"any"})");
}

TEST(Anthropic, BlankTextIsNotSent) {
  ExpectJson(Encoded("anthropic", "{}", R"({"messages": [
      {"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""},
      {"role": "user", "content": " \n"}, {"role": "user", "content": "Well?"}]})")["body"]
                                                                                   ["messages"],
             R"([{"role": "user", "content": [{"type": "text", "text": "Hi"},
                                              {"type": "text", "text": "Well?"}]}])");
}

TEST(Anthropic, SystemMessagesAreJoined) {
  EXPECT_EQ(Encoded("anthropic", "{}", R"({"messages": [{"role": "system", "content": "A"},
      {"role": "user", "content": "Hi"}, {"role": "system", "content": "B"}]})")["body"]
                .Text("system"),
            "A\n\nB");
  EXPECT_EQ(
      Encoded("anthropic", "{}", R"({"messages": [{"role": "system", "content": "A"}]})")
          .Text("refused"),
      "the request holds no message but the system's; the Messages API needs one of the user");
}

TEST(Anthropic, ThinkingIsKeptBackWhereTheParamsSaySo) {
  const Json body = Encoded("anthropic", R"({"reasoning_echo": "never"})", kRich)["body"];
  EXPECT_EQ(body["messages"].array()[1]["content"].array()[0].Text("type"), "text");
}

}  // namespace
}  // namespace kernel_evolve
