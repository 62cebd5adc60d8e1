// Shows the HTTP request that a shipped codec makes of a canonical one:
//   {"provider", "params"?, "request"} on stdin -> {"method", "url", "headers", "body"} on stdout,
// the body parsed. Exit 1 with a sentence on stderr when it refuses.
#include <iostream>
#include <iterator>
#include <string>

#include "tests/providers/codec_fixture.hpp"

namespace {

int Fail(const kernel_evolve::Error& error) {
  std::cerr << "codec_encode: " << error.message << "\n";
  return 1;
}

}  // namespace

int main() {
  using namespace kernel_evolve;
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const Result<Json> given = Json::Parse(text);
  if (!given) return Fail(given.error());
  Codecs codecs;
  const auto codec = codecs.Make(given->Text("provider"), (*given)["params"]);
  if (!codec) return Fail(codec.error());
  const Result<Json> encoded = EncodedJson(**codec, (*given)["request"]);
  if (!encoded) return Fail(encoded.error());
  std::cout << encoded->Dump(2) << "\n";
  return 0;
}
