// Shipped codecs and recorded answers, for the tests over them.
//
// A case is a folder wire/<provider>/<name>/ with
//   response.http  what the server sent: status line, header lines, a blank line, the body as it is
//   expect.json    {"outcome": {...}, "note"?, "says"?: [...], "events"?: {...}, "params"?,
//                  "request"?}
// `outcome` is what Finish yields, or part of it; `says` are parts of an error's sentence; `events`
// are the joined texts of the events of each type.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/plugin/codec.hpp"
#include "core/plugin/registry.hpp"

namespace kernel_evolve {

// Makes codecs of the shipped plugins. Each plugin is loaded once.
class Codecs {
 public:
  Codecs();
  // `params` are laid over a model's name and an address. The error is that of CreateCodec.
  Result<std::unique_ptr<Codec>> Make(const std::string& provider, const Json& params);
  const Registry& registry() const { return registry_; }

 private:
  Registry registry_;
};

struct WireCase {
  std::string provider;
  std::string name;
  int status = 0;
  Json headers = Json::Obj();  // names in lower case
  std::string body;
  Json expect;
};

// Every case below tests/providers/wire, sorted.
std::vector<WireCase> WireCases();

// One user's sentence, and the tools get_weather(city) and submit_kernel(code).
Json PlainRequest();

// What came of an answer that arrived in some pieces.
struct Answered {
  Json outcome;  // of Finish; a failure of the codec itself is {"broken": sentence}
  Json events;   // {"text", "reasoning", "calls": [{"name", "arguments"}], "end"}: joined
};

// Encodes the case's request and feeds its body. `cuts` are the lengths of the pieces, the last one
// again and again; none: the body whole.
Answered Feed(Codec& codec, const WireCase& wire, const std::vector<size_t>& cuts,
              bool complete = true);

// {"method", "url", "headers", "body"}, the body parsed.
Result<Json> EncodedJson(Codec& codec, const Json& request);

// Empty when `actual` has all of `expected`, else the first place that differs. Objects may have
// more members; arrays have as many items.
std::string Missing(const Json& expected, const Json& actual, const std::string& at = "");

}  // namespace kernel_evolve
