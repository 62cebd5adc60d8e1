// The smaller parts of the graph layer: topology, version ranges, profiles, the page of errors.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "core/base/file.hpp"
#include "core/graph/profile.hpp"
#include "core/graph/semver.hpp"
#include "core/graph/topology.hpp"
#include "core/graph/tree.hpp"

namespace kernel_evolve::graph {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = KERNEL_EVOLVE_SOURCE_DIR;

TEST(Topology, KnowsWhatIsReachedAndWhatEnds) {
  // 0 -> 1 -> end, 0 -> 2 -> 2, 3 -> end
  const Shape shape{
      4, 0, {{0, 1, false}, {1, 4, false}, {0, 2, false}, {2, 2, true}, {3, 4, false}}};
  EXPECT_EQ(ReachableFromStart(shape), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(ReachingEnd(shape), (std::vector<bool>{true, true, false, true}));
  EXPECT_TRUE(UnboundedCycles(shape).empty());
}

TEST(Topology, NamesEveryCycleThatNothingBounds) {
  // 0 -> 1 -> 2 -> 0, 2 -> 1, 3 -> 3 (not reached, and a cycle all the same)
  const Shape shape{
      4, 0, {{0, 1, false}, {1, 2, false}, {2, 0, false}, {2, 1, false}, {3, 3, false}}};
  const std::vector<Cycle> cycles = UnboundedCycles(shape);
  ASSERT_EQ(cycles.size(), 3U);
  EXPECT_EQ(cycles[0].path, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(cycles[0].closing, 2);
  EXPECT_EQ(cycles[1].path, (std::vector<int>{1, 2}));
  EXPECT_EQ(cycles[2].path, (std::vector<int>{3}));
}

TEST(Topology, FindsTheWayAroundWriters) {
  const Shape shape{4, 0, {{0, 1, false}, {1, 3, false}, {0, 2, false}, {2, 3, false}}};
  EXPECT_EQ(WayAvoiding(shape, 3, {false, true, false, false}), (std::vector<int>{0, 2, 3}));
  EXPECT_TRUE(WayAvoiding(shape, 3, {false, true, true, false}).empty());
}

TEST(Versions, LieInRanges) {
  const auto in = [](const char* version, const char* range) {
    return VersionInRange(version, range);
  };
  EXPECT_TRUE(in("1.4.0", ">=1.0 <2"));
  EXPECT_FALSE(in("2.0.0", ">=1.0 <2"));
  EXPECT_TRUE(in("1.9.9", "^1.2"));
  EXPECT_FALSE(in("1.1.9", "^1.2"));
  EXPECT_FALSE(in("0.3.0", "^0.2.1"));
  EXPECT_TRUE(in("0.2.9", "^0.2.1"));
  EXPECT_TRUE(in("1.2.9", "~1.2.3"));
  EXPECT_FALSE(in("1.3.0", "~1.2.3"));
  EXPECT_TRUE(in("1.2.7", "1.2"));
  EXPECT_FALSE(in("1.3.0", "1.2"));
  EXPECT_TRUE(in("1.2.3-rc1", "=1.2.3"));
  EXPECT_FALSE(in("1.2.3", ">1.2.3"));
  EXPECT_TRUE(in("1.2.3", "<=1.2.3"));
  for (const char* bad : {"", "x", ">=", "1.2.3.4", "1..2", ">= 1", "1 || 2"}) {
    EXPECT_FALSE(IsVersionRange(bad)) << bad;
  }
}

TEST(Profiles, KeepWhatIsForTheProvider) {
  const LoadedProfile loaded = LoadProfileText(
      "kernel_evolve_profile: 1\n"
      "models:\n"
      "  author:\n"
      "    provider: openai\n"
      "    api_key: \"${env:OPENAI_KEY}\"\n"
      "    sampling: {temperature: 0.8, seed: 3}\n"
      "    x-note: mine\n"
      "evaluator: {use: gpu, with: {device: 0}, launch: [srun, --gres=gpu:1]}\n",
      "p.yaml");
  ASSERT_TRUE(loaded.profile.has_value());
  const Profile& profile = *loaded.profile;
  EXPECT_EQ(profile.models.at("author").provider, "openai");
  EXPECT_EQ(profile.models.at("author").with.Dump(),
            R"({"api_key":"${env:OPENAI_KEY}","sampling":{"seed":3,"temperature":0.8}})");
  EXPECT_EQ(profile.evaluator, "gpu");
  EXPECT_EQ(profile.evaluator_with.Dump(), R"({"device":0})");
  using Words = std::vector<std::string>;
  EXPECT_EQ(profile.evaluator_launch, std::vector<Words>{Words({"srun", "--gres=gpu:1"})});
  EXPECT_EQ(EnvironmentNames(profile.models.at("author").with),
            std::vector<std::string>{"OPENAI_KEY"});
}

TEST(Profiles, MayLaunchSeveralWorkers) {
  const LoadedProfile loaded = LoadProfileText(
      "kernel_evolve_profile: 1\n"
      "evaluator:\n"
      "  use: gpu\n"
      "  launch:\n"
      "    - [env, CUDA_VISIBLE_DEVICES=0]\n"
      "    - [env, CUDA_VISIBLE_DEVICES=1]\n",
      "p.yaml");
  ASSERT_TRUE(loaded.profile.has_value());
  const std::vector<std::vector<std::string>> expected = {{"env", "CUDA_VISIBLE_DEVICES=0"},
                                                          {"env", "CUDA_VISIBLE_DEVICES=1"}};
  EXPECT_EQ(loaded.profile->evaluator_launch, expected);
}

TEST(Profiles, DoNotRepeatASecret) {
  const LoadedProfile loaded = LoadProfileText(
      "kernel_evolve_profile: 1\nmodels:\n  a:\n    provider: p\n    api_key: \"geheim-é\"\n",
      "p.yaml");
  ASSERT_EQ(loaded.diagnostics.size(), 1U);
  const std::string shown = FormatDiagnostic(loaded.diagnostics[0], loaded.source);
  EXPECT_EQ(shown.find("geheim"), std::string::npos) << shown;
  EXPECT_EQ(loaded.source.find("geheim"), std::string::npos);
}

TEST(Profiles, AreToldFromGraphs) {
  EXPECT_TRUE(LooksLikeProfile("# x\nkernel_evolve_profile: 1\n"));
  EXPECT_FALSE(LooksLikeProfile("kernel_evolve: 1\nx: kernel_evolve_profile\n"));
}

// Character by character, where a scalar stands in the text.
std::string Aligned(const std::string& text) {
  const Document document = ParseDocument(text, "t");
  const Tree& scalar = document.root.members[0].value;
  std::string out;
  for (const size_t offset : AlignScalar(document.source, scalar)) {
    out += (out.empty() ? "" : " ") + std::to_string(offset);
  }
  return out;
}

TEST(Positions, FollowQuotesEscapesAndFolding) {
  EXPECT_EQ(Aligned("k: ab"), "3 4 5");
  EXPECT_EQ(Aligned("k: \"a\\\"b\""), "4 5 7 8");
  EXPECT_EQ(Aligned("k: 'a''b'"), "4 5 7 8");
  EXPECT_EQ(Aligned("k: |\n  ab\n  c\n"), "7 8 9 12 13 14");
  EXPECT_EQ(Aligned("k: a\n  b\n"), "3 4 7 8");
  EXPECT_EQ(Aligned("k: éa"), "3 5 6");
}

std::set<std::string> CodesIn(const std::string& text, const std::string& pattern) {
  const std::regex code(pattern);
  std::set<std::string> codes;
  for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it) {
    codes.insert((*it)[1]);
  }
  return codes;
}

TEST(Errors, EveryCodeIsOnThePageAndEveryEntryIsInUse) {
  std::set<std::string> used;
  for (const char* layer : {"core/expr", "core/graph"}) {
    for (const auto& entry : fs::directory_iterator(kSource / layer)) {
      if (entry.path().extension() != ".cpp") continue;
      used.merge(CodesIn(ReadFile(entry.path()).value(), "\"(KE[0-9]{4})\""));
    }
  }
  const std::string page = ReadFile(kSource / "core/graph/ERRORS.md").value();
  const std::set<std::string> documented = CodesIn(page, "\\n\\| (KE[0-9]{4}) \\|");
  EXPECT_GT(used.size(), 50U);
  EXPECT_EQ(used, documented);
}

TEST(Errors, EveryCodeIsShownByACaseOrATest) {
  std::string shown;
  for (const auto& entry : fs::directory_iterator(kSource / "tests/graph/cases")) {
    if (entry.is_regular_file()) shown += ReadFile(entry.path()).value();
  }
  for (const char* file : {"tests/graph/graph_test.cpp", "tests/expr/expr_test.cpp"}) {
    shown += ReadFile(kSource / file).value();
  }
  const std::set<std::string> seen = CodesIn(shown, "(KE[0-9]{4})");
  const std::string page = ReadFile(kSource / "core/graph/ERRORS.md").value();
  for (const std::string& code : CodesIn(page, "\\n\\| (KE[0-9]{4}) \\|")) {
    EXPECT_EQ(seen.count(code), 1U) << code << " is shown nowhere";
  }
}

}  // namespace
}  // namespace kernel_evolve::graph
