// requires: {plugins: {id: version range}}.
#include "core/graph/draft.hpp"
#include "core/graph/semver.hpp"

namespace kernel_evolve::graph {
namespace {

void ReadRequirement(const Member& member, Draft* draft) {
  Reporter* reporter = draft->reporter;
  const std::string& id = member.key.text;
  const std::optional<std::string> range =
      ReadText(member.value, "the version of " + Quoted(id), reporter);
  if (!range) return;
  if (!IsVersionRange(*range)) {
    reporter->At(member.value, "KE1116", Quoted(*range) + " is not a version range",
                 "write something like \">=1.0 <2\"");
    return;
  }
  draft->graph.requires_plugins[id] = *range;
  if (draft->plugins == nullptr) return;
  const auto installed = draft->plugins->find(id);
  if (installed == draft->plugins->end()) {
    reporter->At(member.key, "KE1117", "no plugin " + Quoted(id) + " is installed",
                 Suggest(id, KeysOf(*draft->plugins)));
  } else if (!VersionInRange(installed->second, *range)) {
    reporter->At(member.value, "KE1117",
                 "the plugin " + Quoted(id) + " is installed as " + installed->second +
                     ", which is outside " + *range);
  }
}

}  // namespace

void ReadRequires(const Fields& top, Draft* draft) {
  const Tree* tree = top.Find("requires");
  if (tree == nullptr) return;
  const Fields fields = Fields::Read(*tree, "'requires'", {"plugins"}, draft->reporter);
  const Tree* plugins = fields.Find("plugins");
  if (plugins == nullptr) return;
  for (const Member* member : Fields::ReadOpen(*plugins, "'plugins'", draft->reporter).All()) {
    ReadRequirement(*member, draft);
  }
}

}  // namespace kernel_evolve::graph
