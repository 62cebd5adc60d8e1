// The parts of RunGraph that turn what the user typed into what the engine takes.
#include <charconv>
#include <csignal>
#include <random>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/installation.hpp"
#include "core/cli/run_graph.hpp"
#include "core/graph/profile.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kDefaultProvider[] = "offline";
constexpr char kDefaultEvaluator[] = "simulator";
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

Result<fs::path> FindProfile(const std::string& wanted) {
  if (fs::is_regular_file(wanted)) return fs::path(wanted);
  const fs::path installed = ThisInstallation().graphs() / "profiles" / (wanted + ".yaml");
  if (wanted.find('/') == std::string::npos && fs::is_regular_file(installed)) return installed;
  return BadInput("there is no profile " + wanted + "; give a file, or the name of one in " +
                  installed.parent_path().string());
}

std::string KnownTypes(const Registry& registry, TypeKind kind, const std::string& wanted) {
  std::vector<std::string> names;
  for (const TypeInfo& type : registry.types()) {
    if (type.kind == kind) names.push_back(type.name);
  }
  const auto nearest = Nearest(wanted, names);
  return (nearest ? "; did you mean '" + *nearest + "'?" : "") + std::string(" Installed: ") +
         Join(names, ", ") + ".";
}

Status CheckModels(const graph::Profile& profile, const graph::Graph& graph,
                   const Registry& registry) {
  std::vector<std::string> aliases;
  for (const auto& [alias, unused] : graph.models) aliases.push_back(alias);
  for (const auto& [alias, model] : profile.models) {
    if (!graph.models.contains(alias)) {
      const auto nearest = Nearest(alias, aliases);
      return BadInput(profile.path + ": the graph '" + graph.name + "' has no model '" + alias +
                      "'" + (nearest ? "; did you mean '" + *nearest + "'?" : "") +
                      " Its models are: " + Join(aliases, ", ") + ".");
    }
    const TypeInfo* type = registry.Find(TypeKind::kProvider, model.provider);
    if (type == nullptr) {
      return BadInput(profile.path + ": there is no provider '" + model.provider + "'" +
                      KnownTypes(registry, TypeKind::kProvider, model.provider));
    }
  }
  return {};
}

// A model without what the graph needs is refused before anything is spent.
Status CheckCapabilities(const graph::Graph& graph, const Bindings& bindings,
                         const Registry& registry) {
  for (const auto& [alias, declared] : graph.models) {
    const std::string& provider = bindings.models.at(alias).provider;
    const TypeInfo* type = registry.Find(TypeKind::kProvider, provider);
    if (type == nullptr) {
      return MissingEnvironment("the provider '" + provider + "' is not installed" +
                                KnownTypes(registry, TypeKind::kProvider, provider));
    }
    for (const std::string& need : declared.needs) {
      bool has = false;
      const Json& capabilities = type->interface["capabilities"];
      for (size_t i = 0; i < capabilities.size(); ++i) has |= capabilities.array()[i] == Json(need);
      if (!has) {
        return BadInput("the graph '" + graph.name + "' needs a model '" + alias + "' with " +
                        need + ", which the provider '" + provider +
                        "' does not have; bind another one in the profile");
      }
    }
  }
  return {};
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

Result<uint64_t> SeedFrom(const Arguments& arguments) {
  if (!arguments.Has("--seed")) {
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

Result<Bindings> BindProfile(const Arguments& arguments, const graph::Graph* graph,
                             const Registry& registry) {
  Bindings bindings;
  bindings.evaluator.evaluator = kDefaultEvaluator;
  if (arguments.Has("--profile")) {
    const Result<fs::path> file = FindProfile(arguments.Get("--profile"));
    if (!file) return file.error();
    graph::LoadedProfile loaded = graph::LoadProfile(*file);
    if (!loaded.profile || !loaded.diagnostics.empty()) {
      for (const Diagnostic& one : loaded.diagnostics) {
        std::fputs(FormatDiagnostic(one, loaded.source).c_str(), stderr);
      }
      return BadInput("the profile " + file->string() + " has errors");
    }
    const graph::Profile& profile = *loaded.profile;
    if (graph != nullptr) {
      const Status checked = CheckModels(profile, *graph, registry);
      if (!checked.ok()) return checked.error();
    }
    for (const auto& [alias, model] : profile.models) {
      bindings.models[alias] = {model.provider, model.with};
    }
    if (!profile.evaluator.empty()) bindings.evaluator.evaluator = profile.evaluator;
    bindings.evaluator.params = profile.evaluator_with;
    bindings.launch = profile.evaluator_launch;
  }
  if (registry.Find(TypeKind::kEvaluator, bindings.evaluator.evaluator) == nullptr) {
    return BadInput("there is no evaluator '" + bindings.evaluator.evaluator + "'" +
                    KnownTypes(registry, TypeKind::kEvaluator, bindings.evaluator.evaluator));
  }
  if (graph == nullptr) return bindings;
  for (const auto& [alias, unused] : graph->models) {
    bindings.models.try_emplace(alias, ModelBinding{kDefaultProvider, Json::Obj()});
  }
  const Status capable = CheckCapabilities(*graph, bindings, registry);
  if (!capable.ok()) return capable.error();
  return bindings;
}

}  // namespace kernel_evolve::cli
