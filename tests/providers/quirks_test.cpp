// What a service does otherwise than its form says is forgiven, and told.
#include <gtest/gtest.h>

#include <map>

#include "tests/providers/codec_fixture.hpp"

namespace kernel_evolve {
namespace {

TEST(Quirks, AreToldOneByOne) {
  std::map<std::string, WireCase> wires;
  for (WireCase& wire : WireCases()) wires[wire.provider + "/" + wire.name] = std::move(wire);
  const std::pair<const char*, const char*> cases[] = {
      {"openai/tool_call_stream", "null"},
      {"openai/parallel_calls", "null"},
      {"openai/comments_and_blank_lines", "null"},
      {"pangu/markers", "null"},
      {"anthropic/tool_call_stream", "null"},
      {"openai/arguments_empty", R"(["arguments are empty where {} belongs"])"},
      {"openai/arguments_glued", R"(["arguments are several values glued together"])"},
      {"openai/arguments_object_stream", R"(["arguments are an object where a text belongs"])"},
      {"openai/arguments_twice_encoded", R"(["arguments are encoded twice"])"},
      {"openai/byte_order_mark", R"(["the answer begins with a byte order mark"])"},
      {"openai/content_parts", R"(["content is a list of parts"])"},
      {"openai/data_without_a_space", R"(["events are written data: without a space"])"},
      {"openai/finish_reason_absent", R"(["finish_reason is missing"])"},
      {"openai/finish_reason_wrong", R"(["finish_reason does not tell of the tool calls"])"},
      {"openai/finish_reason_tool_calls_without_one",
       R"(["finish_reason tells of tool calls, and there is none"])"},
      {"openai/function_call_of_old",
       R"(["a tool call comes as function_call, the old form","a tool call has no id"])"},
      {"openai/id_never", R"(["a tool call has no id"])"},
      {"openai/id_new_in_every_delta", R"(["a tool call's id changes on the way"])"},
      {"openai/id_twice", R"(["two tool calls have the same id"])"},
      {"openai/index_always_zero", R"(["several tool calls have the same index"])"},
      {"openai/index_from_one", R"(["tool calls are not counted from 0"])"},
      {"openai/leak_tool_call_tag", R"(["tool calls arrive as text"])"},
      {"openai/message_for_delta", R"(["a stream says message for delta"])"},
      {"openai/name_in_every_delta", R"(["a tool's name is repeated"])"},
      {"openai/name_in_pieces", R"(["a tool's name comes in pieces"])"},
      {"openai/no_done", R"(["the stream ends without its last event"])"},
      {"openai/no_index_but_ids", R"(["tool calls have no index"])"},
      {"openai/stream_to_a_whole_request",
       R"(["a stream comes where a whole answer was asked for"])"},
      {"openai/tool_call_whole", R"(["a whole answer comes where a stream was asked for"])"},
      {"openai/whole_answer_to_a_streamed_request",
       R"(["a whole answer comes where a stream was asked for"])"},
      {"pangu/marker_close_missing", "null"},  // the answer was cut by its length
      {"pangu/marker_open_missing", R"(["a reasoning marker has no pair"])"},
      {"anthropic/data_lines_alone", "null"},
  };
  Codecs codecs;
  for (const auto& [name, quirks] : cases) {
    ASSERT_TRUE(wires.count(name) == 1) << name;
    const WireCase& wire = wires[name];
    const auto codec = codecs.Make(wire.provider, wire.expect["params"]);
    ASSERT_TRUE(codec.ok()) << name;
    const Json outcome = Feed(**codec, wire, {}).outcome;
    ASSERT_TRUE(outcome.contains("response")) << name << ": " << outcome.Dump();
    EXPECT_EQ(outcome["response"]["quirks"].Dump(), quirks) << name;
  }
}

}  // namespace
}  // namespace kernel_evolve
