// What servers really send, and what each codec makes of it. The cases are data: see
// codec_fixture.hpp. However the bytes were cut on their way, the same comes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "tests/providers/codec_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::HasSubstr;

Codecs& Shared() {
  static Codecs codecs;
  return codecs;
}

Answered FeedFresh(const WireCase& wire, const std::vector<size_t>& cuts, bool complete = true) {
  const Result<std::unique_ptr<Codec>> codec = Shared().Make(wire.provider, wire.expect["params"]);
  if (!codec) return {Json::Obj({{"broken", codec.error().message}}), Json()};
  return Feed(**codec, wire, cuts, complete);
}

// Lengths from 1 to 40, then single bytes.
std::vector<size_t> RandomCuts(uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<size_t> cuts(400);
  for (size_t& cut : cuts) cut = 1 + random() % 40;
  cuts.push_back(1);
  return cuts;
}

class Wire : public testing::TestWithParam<WireCase> {};

TEST_P(Wire, ComesToWhatIsExpected) {
  const Json& expect = GetParam().expect;
  const Answered whole = FeedFresh(GetParam(), {});
  EXPECT_EQ(Missing(expect["outcome"], whole.outcome), "") << whole.outcome.Dump(2);
  if (expect.contains("events")) {
    EXPECT_EQ(Missing(expect["events"], whole.events), "") << whole.events.Dump(2);
  }
  if (expect.contains("says")) {
    for (const Json& part : expect["says"].array()) {
      EXPECT_THAT(whole.outcome["error"].Text("message"), HasSubstr(part.string()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Wire, testing::ValuesIn(WireCases()), [](const auto& test) {
  return test.param.provider + "_" + test.param.name;
});

std::string NameOf(const WireCase& wire) { return wire.provider + "/" + wire.name; }

TEST(EveryWireCase, ComesToTheSameHoweverItIsCut) {
  std::vector<std::vector<size_t>> chunkings = {{1}, {7}};
  for (const uint32_t seed : {1U, 2U, 3U}) chunkings.push_back(RandomCuts(seed));
  for (const WireCase& wire : WireCases()) {
    const Answered whole = FeedFresh(wire, {});
    for (size_t i = 0; i < chunkings.size(); ++i) {
      const Answered cut = FeedFresh(wire, chunkings[i]);
      EXPECT_EQ(cut.outcome.Dump(2), whole.outcome.Dump(2)) << NameOf(wire) << " chunking " << i;
      EXPECT_EQ(cut.events.Dump(2), whole.events.Dump(2)) << NameOf(wire) << " chunking " << i;
    }
  }
}

TEST(EveryWireCase, FindsNothingOfAnEarlierAttempt) {
  for (const WireCase& wire : WireCases()) {
    const Result<std::unique_ptr<Codec>> codec =
        Shared().Make(wire.provider, wire.expect["params"]);
    ASSERT_TRUE(codec.ok()) << codec.error().message;
    WireCase half = wire;
    half.body.resize(half.body.size() / 2);
    Feed(**codec, half, {}, /*complete=*/false);
    EXPECT_EQ(Feed(**codec, wire, {}).outcome.Dump(2), FeedFresh(wire, {}).outcome.Dump(2))
        << NameOf(wire);
  }
}

// An answer that lost its tail is an error that may pass, or had said all that matters.
TEST(EveryWireCase, IsNeverTakenForWholeWhenTheConnectionBreaks) {
  size_t answers = 0;
  for (const WireCase& wire : WireCases()) {
    const Answered whole = FeedFresh(wire, {});
    if (!whole.outcome.contains("response")) continue;
    ++answers;
    WireCase cut = wire;
    for (size_t kept = 0; kept < wire.body.size(); kept += 1 + kept / 8) {
      cut.body = wire.body.substr(0, kept);
      const Answered answered = FeedFresh(cut, {}, /*complete=*/false);
      if (!answered.outcome.contains("response")) {
        EXPECT_EQ(answered.outcome["error"].Text("class"), "communication")
            << NameOf(wire) << " of " << kept << " bytes: " << answered.outcome.Dump(2);
        continue;
      }
      for (const char* key : {"text", "reasoning", "tool_calls", "finish_reason"}) {
        EXPECT_EQ(answered.outcome["response"][key].Dump(), whole.outcome["response"][key].Dump())
            << NameOf(wire) << ": " << key << " of " << kept << " bytes";
      }
    }
  }
  EXPECT_GT(answers, 60U);
}

TEST(WireCases, AreThereForEveryCodec) {
  std::map<std::string, int> count;
  for (const WireCase& wire : WireCases()) ++count[wire.provider];
  EXPECT_GE(count["openai"], 100);
  EXPECT_GE(count["anthropic"], 35);
  EXPECT_GE(count["pangu"], 15);
}

}  // namespace
}  // namespace kernel_evolve
