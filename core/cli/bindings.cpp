#include "core/cli/bindings.hpp"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/installation.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kDefaultProvider[] = "offline";
constexpr size_t kMaxCassetteBytes = size_t{256} << 20U;

Result<fs::path> FindProfile(const std::string& wanted) {
  if (fs::is_regular_file(wanted)) return fs::path(wanted);
  const fs::path installed = ThisInstallation().graphs() / "profiles" / (wanted + ".yaml");
  if (wanted.find('/') == std::string::npos && fs::is_regular_file(installed)) return installed;
  return BadInput("there is no profile " + wanted + "; give a file, or the name of one in " +
                  installed.parent_path().string());
}

Status CheckAlias(const graph::Graph& graph, const std::string& alias, const std::string& where) {
  if (graph.models.contains(alias)) return {};
  std::vector<std::string> aliases;
  for (const auto& [name, unused] : graph.models) aliases.push_back(name);
  const auto nearest = Nearest(alias, aliases);
  return BadInput(where + ": the graph '" + graph.name + "' has no model '" + alias + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : "") +
                  " Its models are: " + Join(aliases, ", ") + ".");
}

Status CheckProvider(const Registry& registry, const std::string& provider,
                     const std::string& where) {
  if (registry.Find(TypeKind::kProvider, provider) != nullptr) return {};
  return BadInput(where + ": there is no provider '" + provider + "'" +
                  KnownTypes(registry, TypeKind::kProvider, provider));
}

Status BindProfile(const std::string& wanted, const graph::Graph* graph, const Registry& registry,
                   Bindings* out) {
  const Result<graph::Profile> profile = OpenProfile(wanted);
  if (!profile) return profile.error();
  for (const auto& [alias, model] : profile->models) {
    if (graph == nullptr) continue;
    Status known = CheckAlias(*graph, alias, profile->path);
    if (known.ok()) known = CheckProvider(registry, model.provider, profile->path);
    if (!known.ok()) return known;
    out->models[alias] = {model.provider, model.with, fs::path(profile->path).parent_path()};
  }
  if (!profile->evaluator.empty()) out->evaluator.evaluator = profile->evaluator;
  out->evaluator.params = profile->evaluator_with;
  out->launch = profile->evaluator_launch;
  return {};
}

// `--model author=openai:gpt-x`: another provider, or another model of the same.
Status OverrideModel(const std::string& text, const graph::Graph& graph, const Registry& registry,
                     Bindings* out) {
  const std::string where = "--model " + text;
  const size_t equals = text.find('=');
  const size_t colon = text.find(':', equals == std::string::npos ? 0 : equals);
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return BadInput(where + ": write ALIAS=PROVIDER:NAME, for example author=openai:my-model");
  }
  const std::string alias = text.substr(0, equals);
  const std::string provider =
      text.substr(equals + 1, colon == std::string::npos ? std::string::npos : colon - equals - 1);
  Status known = CheckAlias(graph, alias, where);
  if (known.ok()) known = CheckProvider(registry, provider, where);
  if (!known.ok()) return known;
  ModelBinding& binding = out->models[alias];
  if (binding.provider != provider) binding = {provider, Json::Obj(), fs::path()};
  if (colon != std::string::npos) binding.params["model"] = text.substr(colon + 1);
  return {};
}

Status BindCassette(const std::string& file, const graph::Graph& graph, Bindings* out) {
  const Result<std::string> text = ReadFile(file, kMaxCassetteBytes);
  if (!text) return text.error();
  const Result<Json> cassette = Json::Parse(*text);
  if (!cassette || !(*cassette)["exchanges"].is_array()) {
    return BadInput("--replay " + file + " is no cassette; --record writes one");
  }
  std::error_code failed;
  const fs::path absolute = fs::absolute(file, failed);
  for (const auto& [alias, unused] : graph.models) {
    out->models[alias] = {"replay", Json::Obj({{"cassette", absolute.string()}, {"model", alias}}),
                          fs::path()};
  }
  const Json& seed = (*cassette)["seed"];
  if (seed.is_integer()) out->seed = static_cast<uint64_t>(seed.integer());
  return {};
}

}  // namespace

std::vector<Option> WithModelOptions(std::vector<Option> options) {
  const std::vector<Option> shared = {
      {"--profile", "FILE",
       "What models and evaluator to use; default: the offline author and the simulator"},
      {"--model", "ALIAS=PROVIDER:NAME", "Uses another model for one alias", false, true},
      {"--replay", "FILE", "Answers every model call from a file that --record wrote"}};
  options.insert(options.end(), shared.begin(), shared.end());
  return options;
}

Result<Bindings> Bind(const Arguments& arguments, const graph::Graph* graph,
                      const Registry& registry) {
  Bindings bindings;
  bindings.evaluator.evaluator = kDefaultEvaluator;
  if (arguments.Has("--profile")) {
    Status bound = BindProfile(arguments.Get("--profile"), graph, registry, &bindings);
    if (!bound.ok()) return bound.error();
  }
  const std::string& evaluator = bindings.evaluator.evaluator;
  if (registry.Find(TypeKind::kEvaluator, evaluator) == nullptr) {
    return BadInput("there is no evaluator '" + evaluator + "'" +
                    KnownTypes(registry, TypeKind::kEvaluator, evaluator));
  }
  if (graph == nullptr) return bindings;
  if (arguments.Has("--replay")) {
    Status bound = BindCassette(arguments.Get("--replay"), *graph, &bindings);
    if (!bound.ok()) return bound.error();
  }
  for (const std::string& text : arguments.All("--model")) {
    Status bound = OverrideModel(text, *graph, registry, &bindings);
    if (!bound.ok()) return bound.error();
  }
  for (const auto& [alias, unused] : graph->models) {
    bindings.models.try_emplace(alias, ModelBinding{kDefaultProvider, Json::Obj(), fs::path()});
  }
  return bindings;
}

Result<graph::Profile> OpenProfile(const std::string& wanted) {
  const Result<fs::path> file = FindProfile(wanted);
  if (!file) return file.error();
  graph::LoadedProfile loaded = graph::LoadProfile(*file);
  if (loaded.profile && loaded.diagnostics.empty()) return *std::move(loaded.profile);
  for (const Diagnostic& one : loaded.diagnostics) {
    std::fputs(FormatDiagnostic(one, loaded.source).c_str(), stderr);
  }
  return BadInput("the profile " + file->string() + " has errors");
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

}  // namespace kernel_evolve::cli
