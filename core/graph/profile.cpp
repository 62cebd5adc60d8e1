#include "core/graph/profile.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/graph/fields.hpp"
#include "core/graph/tree.hpp"

namespace kernel_evolve::graph {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20U;
constexpr char kKey[] = "kernel_evolve_profile";
constexpr std::string_view kOpen = "${env:";

bool IsVariable(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Keys whose values are secrets wherever they stand, headers included.
bool NamesSecret(std::string key) {
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::replace(key.begin(), key.end(), '-', '_');
  for (const std::string_view word : {"api_key", "apikey", "token", "secret", "password"}) {
    if (std::string_view(key).ends_with(word)) return true;
  }
  return key == "authorization" || key == "cookie";
}

// Visits every `${` of a text: f(offset, name), the name empty when it is malformed.
template <typename F>
void ForEachVariable(const std::string& text, F f) {
  for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    const size_t end = text.find('}', at);
    const bool ours = text.compare(at, kOpen.size(), kOpen) == 0 && end != std::string::npos;
    const std::string name =
        ours ? text.substr(at + kOpen.size(), end - at - kOpen.size()) : std::string();
    f(at, IsVariable(name) ? name : std::string());
  }
}

class ProfileReader {
 public:
  ProfileReader(Reporter* reporter, Profile* profile) : reporter_(reporter), profile_(profile) {}

  void Run(const Tree& root) {
    if (!CheckVersion(root)) return;
    const Fields top =
        Fields::Read(root, "a profile", {kKey, "models", "evaluator", "description"}, reporter_);
    if (const Tree* text = top.Find("description")) ReadText(*text, "a description", reporter_);
    if (const Tree* models = top.Find("models")) {
      for (const Member* member : Fields::ReadOpen(*models, "'models'", reporter_).All()) {
        ReadModel(*member);
      }
    }
    if (const Tree* evaluator = top.Find("evaluator")) ReadEvaluator(*evaluator);
  }

  // The text with every secret that was written into it struck out: excerpts of it end up in logs.
  std::string MaskedSource() const {
    std::string text = reporter_->source().text();
    for (const Tree* secret : secrets_) {
      const size_t end = AlignScalar(reporter_->source(), *secret).back();
      for (size_t i = secret->offset; i < end; ++i) {
        const bool starts = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
        if (text[i] != '\n' && text[i] != '\r') text[i] = starts ? '*' : '\0';
      }
    }
    text.erase(std::remove(text.begin(), text.end(), '\0'), text.end());
    return text;
  }

 private:
  bool CheckVersion(const Tree& root) {
    const Fields top = Fields::ReadOpen(root, "a profile", reporter_);
    if (!top.ok()) return false;
    const Tree* version = top.Find(kKey);
    if (version == nullptr) {
      const bool graph = top.Find("kernel_evolve") != nullptr;
      reporter_->At(SourceRange{{1, 1}, 0}, "KE1301",
                    graph ? "this is a graph, not a profile"
                          : "a profile needs the key 'kernel_evolve_profile'",
                    graph ? "" : "begin the file with kernel_evolve_profile: 1");
      return false;
    }
    if (version->is(Tree::Kind::kScalar) && version->text == "1") return true;
    reporter_->At(*version, "KE1301", "this program reads version 1 of profiles",
                  "write kernel_evolve_profile: 1");
    return version->broken;
  }

  void ReadModel(const Member& member) {
    const std::optional<std::string> name = ReadName(member.key, "a model", true, reporter_);
    const Fields fields = Fields::ReadOpen(member.value, "a model", reporter_);
    const Tree* provider = fields.Require("provider", member.key.range, reporter_);
    Profile::Model model;
    if (provider != nullptr) {
      model.provider = ReadText(*provider, "'provider'", reporter_).value_or("");
    }
    for (const Member* other : fields.All()) {
      if (other->key.text == "provider") continue;
      CheckSecrets(other->value, other->key.text);
      model.with[other->key.text] = ReadUntyped(other->value);
    }
    if (name) profile_->models[*name] = std::move(model);
  }

  void ReadEvaluator(const Tree& tree) {
    const Fields fields = Fields::Read(tree, "an evaluator", {"use", "with", "launch"}, reporter_);
    if (const Tree* use = fields.Require("use", tree.range, reporter_)) {
      profile_->evaluator = ReadText(*use, "'use'", reporter_).value_or("");
    }
    if (const Tree* with = fields.Find("with")) {
      if (Fields::ReadOpen(*with, "'with'", reporter_).ok() && with->is(Tree::Kind::kMapping)) {
        CheckSecrets(*with, "with");
        profile_->evaluator_with = ReadUntyped(*with);
      }
    }
    if (const Tree* launch = fields.Find("launch")) ReadLaunch(*launch);
  }

  // [srun, --gres=gpu:1], or a list of such lists: a worker each.
  void ReadLaunch(const Tree& launch) {
    const bool several = launch.is(Tree::Kind::kSequence) && !launch.items.empty() &&
                         launch.items.front().is(Tree::Kind::kSequence);
    if (!several) {
      if (auto words = ReadWords(launch)) profile_->evaluator_launch.push_back(std::move(*words));
      return;
    }
    for (const Tree& one : launch.items) {
      if (auto words = ReadWords(one)) profile_->evaluator_launch.push_back(std::move(*words));
    }
  }

  std::optional<std::vector<std::string>> ReadWords(const Tree& list) {
    if (!list.is(Tree::Kind::kSequence)) {
      reporter_->At(list, "KE1104", "'launch' must be a list of words, or of such lists",
                    "write [srun, --gres=gpu:1]");
      return std::nullopt;
    }
    std::vector<std::string> words;
    for (const Tree& item : list.items) {
      if (const auto text = ReadText(item, "a word of 'launch'", reporter_)) words.push_back(*text);
    }
    return words;
  }

  // A secret must come from the environment; `${` has no other use here.
  void CheckSecrets(const Tree& tree, const std::string& key) {
    if (tree.is(Tree::Kind::kScalar)) return CheckText(tree, key);
    for (const Tree& item : tree.items) CheckSecrets(item, key);
    for (const Member& member : tree.members) CheckSecrets(member.value, member.key.text);
  }

  void CheckText(const Tree& tree, const std::string& key) {
    bool from_environment = false;
    bool malformed = false;
    ForEachVariable(tree.text, [&](size_t at, const std::string& name) {
      if (!name.empty()) {
        from_environment = true;
        return;
      }
      malformed = true;
      const std::vector<size_t> offsets = AlignScalar(reporter_->source(), tree);
      const size_t raw = offsets[CountCodePoints(std::string_view(tree.text).substr(0, at))];
      reporter_->At(reporter_->source().Range(raw, raw + 2), "KE1303",
                    "only ${env:NAME} has a meaning in a profile",
                    "write ${env:NAME} with the name of an environment variable");
    });
    if (from_environment || malformed || !NamesSecret(key)) return;
    if (tree.text.empty() || tree.text == "none") return;  // what an endpoint without keys gets
    secrets_.push_back(&tree);
    reporter_->At(tree, "KE1302", "a secret must not be written into a profile",
                  "write \"${env:NAME}\" and set the variable");
  }

  Reporter* reporter_;
  Profile* profile_;
  std::vector<const Tree*> secrets_;
};

LoadedProfile Load(std::string text, const std::string& name) {
  LoadedProfile loaded;
  Document document = ParseDocument(std::move(text), name);
  loaded.source = document.source.text();
  loaded.diagnostics = std::move(document.diagnostics);
  if (document.usable) {
    Reporter reporter(name, &document.source, &loaded.diagnostics);
    Profile profile;
    profile.path = name;
    ProfileReader reader(&reporter, &profile);
    reader.Run(document.root);
    loaded.source = reader.MaskedSource();
    if (loaded.diagnostics.empty()) loaded.profile = std::move(profile);
  }
  SortDiagnostics(&loaded.diagnostics);
  return loaded;
}

void CollectNames(const Json& value, std::vector<std::string>* names) {
  if (value.is_string()) {
    ForEachVariable(value.string(), [names](size_t, const std::string& name) {
      const bool known = std::find(names->begin(), names->end(), name) != names->end();
      if (!name.empty() && !known) names->push_back(name);
    });
  } else if (value.is_array()) {
    for (const Json& item : value.array()) CollectNames(item, names);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.object()) CollectNames(member, names);
  }
}

}  // namespace

LoadedProfile LoadProfile(const std::filesystem::path& file) {
  Result<std::string> text = ReadFile(file, kMaxBytes);
  if (text.ok()) return Load(std::move(*text), file.string());
  LoadedProfile loaded;
  loaded.diagnostics.push_back({"KE1001", file.string(), {}, text.error().message, ""});
  return loaded;
}

LoadedProfile LoadProfileText(const std::string& text, const std::string& name) {
  return Load(text, name);
}

bool LooksLikeProfile(const std::string& text) {
  const std::string key = std::string(kKey) + ":";
  return text.starts_with(key) || text.find("\n" + key) != std::string::npos;
}

std::vector<std::string> EnvironmentNames(const Json& value) {
  std::vector<std::string> names;
  CollectNames(value, &names);
  return names;
}

}  // namespace kernel_evolve::graph
