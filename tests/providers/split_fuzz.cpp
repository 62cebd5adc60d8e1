// libFuzzer: whatever a service sends and however it is cut, a codec's outcome and its joined
// events are the same, and it fails with planned errors only.
//   cmake -DKERNEL_EVOLVE_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ ...; bin/fuzz_split -max_len=4096
// The first byte chooses the codec and the status, the second the cuts; the rest is the body.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "plugins/provider_anthropic/reply.hpp"

#include <kernel_evolve/chat_codec.hpp>

namespace {

using namespace kernel_evolve::sdk;

json Tools() { return {{{"name", "get_weather"}, {"parameters", {{"type", "object"}}}}}; }

struct Seen {
  std::string outcome;
  std::string text;  // of all events of the kind
  std::string reasoning;
  bool operator==(const Seen& other) const {
    return outcome == other.outcome && text == other.text && reasoning == other.reasoning;
  }
};

void Join(const std::string& lines, Seen* seen) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    const json event = json::parse(lines.substr(at, end - at));
    if (event["type"] == "text") seen->text += event["text"];
    if (event["type"] == "reasoning") seen->reasoning += event["text"];
    at = end + 1;
  }
}

json OutcomeOf(provider_anthropic::Reply* reply) { return reply->Finish(true); }
json OutcomeOf(detail::ChatReply* reply) {
  const detail::ChatReply::Raw raw = reply->Finish(true);
  json leaked = json::array();
  for (const auto& call : detail::LeakedCalls(raw.text, Tools())) {
    leaked.push_back({call.name, call.arguments});
  }
  const detail::SplitText split = detail::SplitReasoning(raw.text, "[unused16]", "[unused17]");
  return {raw.text, raw.reasoning, raw.finish, raw.usage, raw.calls, leaked, split.text};
}

// `cuts` seeds the lengths of the pieces; 0: the body whole.
template <typename R>
Seen Run(R reply, int status, std::string_view body, uint32_t cuts) {
  Seen seen;
  Events events;
  reply->Begin({status, {}});
  while (!body.empty()) {
    cuts = cuts * 1664525U + (cuts == 0 ? 0 : 1013904223U);
    const size_t length = cuts == 0 ? body.size() : 1 + (cuts >> 16U) % 9;
    reply->Feed(body.substr(0, length), events);
    body.remove_prefix(std::min(length, body.size()));
  }
  Join(events.lines(), &seen);
  try {
    seen.outcome = Host::Print(OutcomeOf(reply.get()));
  } catch (const PluginError& e) {
    seen.outcome = e.error_class() + ": " + e.what();
  }
  return seen;
}

Seen RunOne(uint8_t kind, std::string_view body, uint32_t cuts) {
  const int status = (kind & 2U) != 0 ? 500 : 200;
  if ((kind & 1U) != 0) {
    return Run(std::make_unique<provider_anthropic::Reply>("it"), status, body, cuts);
  }
  return Run(std::make_unique<detail::ChatReply>(Tools(), "it"), status, body, cuts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 2), size - 2);
  const Seen whole = RunOne(data[0], body, 0);
  const Seen cut = RunOne(data[0], body, 1U + data[1]);
  if (whole == cut) return 0;
  std::cerr << "whole: " << whole.outcome << "\ncut:   " << cut.outcome << "\n";
  std::abort();
}
