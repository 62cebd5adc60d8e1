#include "core/llm/message.hpp"

#include <gtest/gtest.h>

namespace kernel_evolve {
namespace {

Json J(const std::string& text) {
  Result<Json> value = Json::Parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : Json();
}

Json Request() {
  return J(R"({
    "messages": [{"role": "system", "content": "You write kernels."},
                 {"role": "user", "content": "Write one."}],
    "tools": [{"name": "submit_kernel", "description": "hands in",
               "parameters": {"type": "object",
                              "properties": {"code": {"type": "string"},
                                             "summary": {"type": "string"},
                                             "tries": {"type": ["integer", "null"]},
                                             "kind": {"enum": ["a", "b"]}},
                              "required": ["code"], "additionalProperties": false}},
              {"name": "ask", "parameters": {"type": "object"}}],
    "tool_choice": "required", "sampling": {}, "seed": 1, "context": {"purpose": "generate"}})");
}

Json Response(const std::string& arguments = R"({"code": "x", "summary": "s"})") {
  return J(R"({"text": "", "tool_calls": [{"id": "1", "name": "submit_kernel", "arguments": )" +
           arguments + R"(}], "usage": {"input_tokens": 7, "output_tokens": 3},
               "finish_reason": "tool_calls", "model": "m"})");
}

std::string RefusalOf(const Json& request) {
  const Status checked = CheckRequest(request);
  if (checked.ok()) return "";
  EXPECT_EQ(checked.error().error_class, ErrorClass::kValidation);
  return checked.error().message;
}

std::string RefusalOf(const Json& request, const Json& response) {
  const Result<Json> checked = CheckResponse(request, response);
  if (checked.ok()) return "";
  EXPECT_EQ(checked.error().error_class, ErrorClass::kInvalidOutput);
  return checked.error().message;
}

TEST(Request, ACompleteOneAndTheSmallestOnePass) {
  EXPECT_EQ(RefusalOf(Request()), "");
  EXPECT_EQ(RefusalOf(J(R"({"messages": [{"role": "user", "content": ""}]})")), "");
}

TEST(Request, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "request: expected an object"},
      {R"({"messages": []})", "request.messages: expected at least one message"},
      {R"({"messages": [{"role": "boss", "content": ""}]})",
       "request.messages[0].role: expected system, user, assistant or tool"},
      {R"({"messages": [{"role": "user"}]})", "request.messages[0].content: expected text"},
      {R"({"messages": [{"role": "tool", "content": ""}]})",
       "request.messages[0].tool_call_id: a tool's message names the call that it answers"},
      {R"({"messages": [{"role": "user", "content": "", "tool_calls": []}]})",
       "request.messages[0].tool_calls: an array, in messages of the assistant only"},
      {R"({"messages": [{"role": "user", "content": ""}], "temperature": 1})",
       "request.temperature: unknown key"},
      {R"({"messages": [{"role": "user", "content": ""}], "tools": [{"name": "a b"}]})",
       "request.tools[0].name: expected 1 to 64 letters, digits, '_' or '-'"},
      {R"({"messages": [{"role": "user", "content": ""}], "tools": [{"name": "a"}]})",
       "request.tools[0].parameters: expected a JSON Schema object"},
      {R"({"messages": [{"role": "user", "content": ""}], "tools":
           [{"name": "a", "parameters": {}}, {"name": "a", "parameters": {}}]})",
       "request.tools[1].name: 'a' comes twice"},
      {R"({"messages": [{"role": "user", "content": ""}], "tool_choice": "required"})",
       "request.tool_choice: 'required' without any tool"},
      {R"({"messages": [{"role": "user", "content": ""}], "tool_choice": {"name": "x"}})",
       "request.tool_choice: expected auto, required or {name} of a tool in 'tools'"},
      {R"({"messages": [{"role": "user", "content": ""}], "sampling": 1})",
       "request.sampling: expected an object"},
      {R"({"messages": [{"role": "user", "content": ""}], "seed": 0.5})",
       "request.seed: expected an integer"},
  };
  for (const auto& [request, sentence] : cases) EXPECT_EQ(RefusalOf(J(request)), sentence);
}

TEST(Response, IsCompletedToItsCanonicalForm) {
  const Json request = J(R"({"messages": [{"role": "user", "content": ""}]})");
  const Result<Json> checked = CheckResponse(request, J(R"({"text": "hi", "extra": 1})"));
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(*checked, J(R"({"text": "hi", "extra": 1, "reasoning": "", "tool_calls": [],
      "usage": {"input_tokens": 0, "output_tokens": 0}, "finish_reason": "stop", "model": ""})"));
}

TEST(Response, FinishReasonFollowsFromTheCallsWhenItIsAbsent) {
  Json response = Response();
  response["finish_reason"] = "";
  EXPECT_EQ((*CheckResponse(Request(), response))["finish_reason"], Json("tool_calls"));
}

TEST(Response, ToolCallsMustFitTheToolsThatWereOffered) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("x")", "the arguments of the tool 'submit_kernel' are no object"},
      {R"({})", "the argument 'code' of the tool 'submit_kernel' is missing"},
      {R"({"code": 1})",
       "the argument 'code' of the tool 'submit_kernel': expected string, got integer"},
      {R"({"code": "", "tries": "1"})",
       "the argument 'tries' of the tool 'submit_kernel': expected integer or null, got string"},
      {R"({"code": "", "kind": "c"})",
       "the argument 'kind' of the tool 'submit_kernel': expected one of [\"a\",\"b\"]"},
      {R"({"code": "", "speed": 1})",
       "the argument 'speed' of the tool 'submit_kernel' is unknown"},
      {R"({"code": "", "tries": null, "kind": "b"})", ""},
  };
  for (const auto& [arguments, sentence] : cases) {
    EXPECT_EQ(RefusalOf(Request(), Response(arguments)), sentence);
  }
}

TEST(Response, AToolThatWasNotOfferedIsNamedBesideThoseThatWere) {
  Json response = Response();
  response["tool_calls"].array()[0]["name"] = "rm";
  EXPECT_EQ(RefusalOf(Request(), response),
            "the model called the tool 'rm', which was not offered; the tools are: submit_kernel, "
            "ask");
}

TEST(Response, TheToolThatWasAskedForMustBeTheOneCalled) {
  Json request = Request();
  request["tool_choice"] = Json::Obj({{"name", "ask"}});
  EXPECT_EQ(RefusalOf(request, Response()),
            "the model called the tool 'submit_kernel' where 'ask' was asked for");
}

TEST(Response, TextAloneIsRefusedWhereAToolIsRequired) {
  Json response = J(R"({"text": "here is my kernel"})");
  EXPECT_EQ(RefusalOf(Request(), response),
            "the model answered without calling a tool although one was required");
  Json request = Request();
  request["tool_choice"] = "auto";
  EXPECT_EQ(RefusalOf(request, response), "");
}

TEST(Response, ACallThatWasCutOffSaysSo) {
  Json response = Response(R"({})");
  response["finish_reason"] = "length";
  EXPECT_EQ(RefusalOf(Request(), response),
            "the response was cut off by the length limit: the argument 'code' of the tool "
            "'submit_kernel' is missing");
}

TEST(Response, ItsFormIsChecked) {
  EXPECT_EQ(RefusalOf(Request(), Json("x")), "the response is no object");
  EXPECT_EQ(RefusalOf(Request(), J(R"({"text": 1})")), "the response has a 'text' that is no text");
  EXPECT_EQ(RefusalOf(Request(), J(R"({"tool_calls": {}})")),
            "the response's tool_calls are no array");
  Json twice = Response();
  twice["tool_calls"].push_back(twice["tool_calls"].array()[0]);
  EXPECT_EQ(RefusalOf(Request(), twice), "two tool calls in the response have the id '1'");
  Json reason = Response();
  reason["finish_reason"] = "tired";
  EXPECT_EQ(RefusalOf(Request(), reason),
            "the response has the finish_reason 'tired', which is none of tool_calls, stop, length "
            "and content_filter");
}

TEST(Usage, IsReadForgivinglyBecauseItWasPaid) {
  EXPECT_EQ(UsageOf(Response()).total(), 10);
  EXPECT_EQ(UsageOf(J(R"({"usage": {"input_tokens": -5, "output_tokens": "3"}})")).total(), 0);
  EXPECT_EQ(UsageOf(Json()).total(), 0);
}

TEST(Usage, TheEstimateCountsWhatIsSentAndNotTheContext) {
  Json request = Request();
  const int64_t before = EstimateInputTokens(request);
  EXPECT_GT(before, 50);
  request["context"]["attempts"] = std::string(10000, 'x');
  EXPECT_EQ(EstimateInputTokens(request), before);
}

}  // namespace
}  // namespace kernel_evolve
