// The parts of RunGraph that turn what the user typed into what the engine takes.
#include <charconv>
#include <csignal>
#include <map>
#include <random>

#include "core/base/text.hpp"
#include "core/cli/run_graph.hpp"

namespace kernel_evolve::cli {
namespace {

constexpr uint64_t kSeedLimit = uint64_t{1} << 53U;

std::atomic<bool> interrupted{false};

extern "C" void OnSignal(int number) {
  // The second one is for a program that does not end by itself: the default action.
  if (interrupted.exchange(true)) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}

Error BadBudget(const std::string& entry, const std::string& why) {
  return BadInput("--budget " + entry + ": " + why +
                  "; write for example wall=10m,evaluations=40,llm_calls=60,tokens=400k");
}

}  // namespace

const std::atomic<bool>& Interrupted() { return interrupted; }

void WatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

Result<graph::Budget> ParseBudget(const std::string& text) {
  graph::Budget budget;
  const std::map<std::string, std::optional<int64_t>*> counts = {
      {"steps", &budget.steps},
      {"llm_calls", &budget.llm_calls},
      {"tokens", &budget.tokens},
      {"evaluations", &budget.evaluations}};
  std::vector<std::string> known = {"wall", "cost"};
  for (const auto& [name, unused] : counts) known.push_back(name);
  if (text.empty()) return budget;
  for (const std::string& entry : Split(text, ',')) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) return BadBudget(entry, "it has no '='");
    const std::string key = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    if (key == "wall") {
      budget.wall_s = ParseDuration(value);
      if (!budget.wall_s) return BadBudget(entry, "'" + value + "' is no duration such as 10m");
    } else if (key == "cost") {
      double cost = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), cost);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() || !(cost >= 0)) {
        return BadBudget(entry, "'" + value + "' is no amount such as 2.50");
      }
      budget.cost = cost;
    } else if (const auto found = counts.find(key); found != counts.end()) {
      *found->second = ParseCount(value);
      if (!*found->second) return BadBudget(entry, "'" + value + "' is no count such as 40");
    } else {
      const auto nearest = Nearest(key, known);
      return BadBudget(entry, "there is no budget '" + key + "'" +
                                  (nearest ? ", did you mean '" + *nearest + "'?" : ""));
    }
  }
  return budget;
}

Result<uint64_t> SeedFrom(const Arguments& arguments, std::optional<uint64_t> otherwise) {
  if (!arguments.Has("--seed")) {
    if (otherwise) return *otherwise;
    std::random_device device;
    return ((uint64_t{device()} << 32U) | device()) % kSeedLimit;
  }
  const std::string text = arguments.Get("--seed");
  uint64_t seed = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || seed >= kSeedLimit) {
    return BadInput("--seed takes a whole number below 2^53, not '" + text + "'");
  }
  return seed;
}

}  // namespace kernel_evolve::cli
