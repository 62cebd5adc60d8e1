// Golden traces: cases/*.case hold a graph, the script of its fakes, and the trace that must come
// of it. Sections begin with `=== <name>`:
//   graph    the document
//   script   what the fakes do (support.hpp)
//   run      {"inputs", "task", "budget": {"steps": n, ...}}; may be left out
//   trace    one line per event and per step of a plugin
//   state    the channels in the end
// To see the trace that a run makes, let the comparison fail.
#include <gtest/gtest.h>
#include <algorithm>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "tests/engine/support.hpp"

namespace kernel_evolve::test {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(KERNEL_EVOLVE_SOURCE_DIR) / "tests/engine/cases";

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    if (entry.path().extension() == ".case") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, std::string> SectionsOf(const fs::path& file) {
  std::map<std::string, std::string> sections;
  Result<std::string> text = ReadFile(file);
  EXPECT_TRUE(text.ok());
  std::string* open = nullptr;
  for (const std::string& line : Split(text.ok() ? *text : "", '\n')) {
    if (line.rfind("=== ", 0) == 0) {
      open = &sections[line.substr(4)];
    } else if (open != nullptr) {
      *open += line + "\n";
    }
  }
  return sections;
}

graph::Budget BudgetOf(const Json& value) {
  graph::Budget budget;
  const auto count = [&value](const char* name) {
    return value.contains(name) ? std::optional<int64_t>(value.Integer(name)) : std::nullopt;
  };
  budget.steps = count("steps");
  budget.llm_calls = count("llm_calls");
  budget.tokens = count("tokens");
  budget.evaluations = count("evaluations");
  if (value.contains("wall")) budget.wall_s = value.Number("wall");
  if (value.contains("cost")) budget.cost = value.Number("cost");
  return budget;
}

std::string Trimmed(const std::string& text) { return std::string(Trim(text)); }

class GoldenTrace : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(GoldenTrace, ComesOfTheGraph) {
  const auto& [name, threads] = GetParam();
  auto sections = SectionsOf(kCases / (name + ".case"));
  World world(sections["script"]);
  const graph::Graph graph = Load(sections["graph"], world);
  ASSERT_FALSE(HasFailure());
  TempFolder folder;
  RunSpec spec = SpecFor(graph, world, folder.path() / "run");
  spec.threads = threads;
  const Json run = sections.count("run") > 0 ? J(sections["run"]) : Json::Obj();
  spec.inputs = run["inputs"];
  if (run.contains("task")) spec.task = run["task"];
  spec.budget_override = BudgetOf(run["budget"]);
  for (auto& [alias, binding] : spec.models) {
    if (run.contains("price")) binding.params["price"] = run["price"];
  }

  const RunOutcome outcome = RunIn(spec, world);

  EXPECT_EQ(Trimmed(world.trace.text()), Trimmed(sections["trace"]));
  EXPECT_EQ(outcome.state.Dump(2), J(sections["state"]).Dump(2));
  EXPECT_EQ(world.alive, 0) << "an instance was not destroyed";
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTrace,
                         ::testing::Combine(::testing::ValuesIn(CaseNames()),
                                            ::testing::Values(1, 8)),
                         [](const auto& each) {
                           return std::get<0>(each.param) + "_" +
                                  std::to_string(std::get<1>(each.param)) + "_threads";
                         });

}  // namespace
}  // namespace kernel_evolve::test
