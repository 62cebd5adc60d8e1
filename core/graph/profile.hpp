// Profiles: what a graph's model aliases and its evaluator are bound to. The only place for
// endpoints and secrets; a secret is written as `${env:NAME}` and is not resolved here.
// Value types; thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/source.hpp"

namespace kernel_evolve::graph {

struct Profile {
  struct Model {
    std::string provider;
    Json with = Json::Obj();  // everything else, for the provider; `${env:NAME}` left as written
  };
  std::string path;
  std::map<std::string, Model> models;
  std::string evaluator;  // empty: the best one that this machine can run
  Json evaluator_with = Json::Obj();
  // Commands to start workers through, one worker each; empty: one, started as it is.
  std::vector<std::vector<std::string>> evaluator_launch;
};

// A profile exactly when there are no diagnostics.
struct LoadedProfile {
  std::optional<Profile> profile;
  std::vector<Diagnostic> diagnostics;
  std::string source;
};

LoadedProfile LoadProfile(const std::filesystem::path& file);
LoadedProfile LoadProfileText(const std::string& text, const std::string& name);

// True when the document declares itself a profile, so that `validate` can take both kinds.
bool LooksLikeProfile(const std::string& text);

// The names in `${env:NAME}` of a value, each once, in order of appearance.
std::vector<std::string> EnvironmentNames(const Json& value);

}  // namespace kernel_evolve::graph
