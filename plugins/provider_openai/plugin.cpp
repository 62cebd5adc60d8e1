// The provider `openai`: any service that speaks Chat Completions. See README.md.
#include <kernel_evolve/chat_codec.hpp>

namespace {

using namespace kernel_evolve::sdk;

json Params() {
  json schema = ChatParams();
  schema["properties"]["base_url"]["default"] = "https://api.openai.com/v1";
  schema["properties"]["api_key"]["default"] = "${env:OPENAI_API_KEY}";
  schema["required"] = {"model"};
  return schema;
}

constexpr char kInterface[] = R"({"form": "codec", "capabilities":
    ["tools", "parallel_tools", "streaming", "json_schema", "seed", "reasoning_echo"]})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("provider_openai", "1.0.0",
                     CodecProvider<ChatCodec>("openai", "Any endpoint of the Chat Completions form",
                                              Params(), kInterface))
