// Answers that no server should send: recorded ones, damaged at random. A codec may refuse them in
// any class but must not fail itself, and how the bytes were cut must still not matter.
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "tests/providers/codec_fixture.hpp"

namespace kernel_evolve {
namespace {

using Random = std::minstd_rand;

// Puts a byte that means something to JSON or to the stream in place of another, thrice.
void DamageBytes(std::string* body, Random& random) {
  static const std::string kBytes("{}[]\",:\\\n\r 0-e\x80\xC3", 16);
  for (int i = 0; i < 3; ++i) (*body)[random() % body->size()] = kBytes[random() % kBytes.size()];
}

// Gives a member of some object a value of another type: `"a": x` becomes `"a": null, "z": x`.
void DamageTypes(std::string* body, Random& random) {
  static const char* const kValues[] = {"null", "7",    "-1.5", "\"x\"",    "\"\"",
                                        "[]",   "[1]",  "{}",   "[null]",   "true",
                                        "1e99", "[{}]", "[[]]", "{\"a\":1}"};
  std::vector<size_t> places;
  for (size_t at = body->find("\":"); at != std::string::npos; at = body->find("\":", at + 1)) {
    places.push_back(at + 2);
  }
  if (places.empty()) return;
  const std::string value = kValues[random() % std::size(kValues)];
  body->insert(places[random() % places.size()], value + ",\"z\":");
}

class Damaged
    : public testing::TestWithParam<std::pair<const char*, void (*)(std::string*, Random&)>> {};

TEST_P(Damaged, AnswersAreRefusedOrReadButNeverBreakACodec) {
  Codecs codecs;
  size_t read = 0;
  size_t refused = 0;
  for (const WireCase& wire : WireCases()) {
    if (wire.body.empty()) continue;
    const auto codec = codecs.Make(wire.provider, wire.expect["params"]);
    ASSERT_TRUE(codec.ok()) << codec.error().message;
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      Random random(seed * 7919);
      WireCase damaged = wire;
      GetParam().second(&damaged.body, random);
      const Answered whole = Feed(**codec, damaged, {});
      const Answered cut = Feed(**codec, damaged, {1 + random() % 9});
      const std::string where =
          wire.provider + "/" + wire.name + " seed " + std::to_string(seed) + "\n" + damaged.body;
      ASSERT_FALSE(whole.outcome.contains("broken")) << whole.outcome.Dump() << where;
      ASSERT_EQ(cut.outcome.Dump(), whole.outcome.Dump()) << where;
      ASSERT_EQ(cut.events.Dump(), whole.events.Dump()) << where;
      ++(whole.outcome.contains("response") ? read : refused);
    }
  }
  EXPECT_GT(read, 80U);
  EXPECT_GT(refused, 80U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Damaged,
                         testing::Values(std::pair{"Bytes", &DamageBytes},
                                         std::pair{"Types", &DamageTypes}),
                         [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace kernel_evolve
