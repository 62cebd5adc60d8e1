#include "core/graph/loader.hpp"

#include <algorithm>
#include <utility>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/graph/draft.hpp"

namespace kernel_evolve::graph {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = size_t{4} << 20U;
constexpr char kVersion[] = "1";

const std::vector<std::string>& TopKeys() {
  static const std::vector<std::string> keys = {
      "kernel_evolve", "name",   "description", "requires", "inputs",
      "models",        "budget", "state",       "start",    "nodes"};
  return keys;
}

// Reports what is wrong with the version; true when the rest can be read as version 1.
bool CheckVersion(const Tree& root, Reporter* reporter) {
  const Fields top = Fields::ReadOpen(root, "a graph", reporter);
  if (!top.ok()) return false;
  if (const Member* profile = top.FindMember("kernel_evolve_profile")) {
    reporter->At(profile->key, "KE1105", "this is a profile, not a graph",
                 "pass it with --profile");
    return false;
  }
  const Tree* version = top.Find("kernel_evolve");
  if (version == nullptr) {
    // Close to a graph: say what is missing and go on. Anything else is not ours.
    reporter->At(SourceRange{{1, 1}, 0}, "KE1102", "a graph needs the key 'kernel_evolve'",
                 "begin the file with kernel_evolve: 1");
    return top.Find("nodes") != nullptr;
  }
  if (version->broken) return true;
  if (version->is(Tree::Kind::kScalar) && version->text == kVersion && !version->quoted()) {
    return true;
  }
  reporter->At(*version, "KE1105",
               "this program reads version 1 of the graph language, not " +
                   (version->is(Tree::Kind::kScalar) ? Quoted(version->text) : "this"),
               "write kernel_evolve: 1");
  return false;
}

// The document and everything it names, length by length, so that no two sets look the same.
std::string HashOf(const Draft& draft) {
  std::string all = draft.graph.source;
  for (const auto& [path, text] : draft.files) {
    all += '\0' + path + '\0' + std::to_string(text.size()) + '\0' + text;
  }
  return Sha256Hex(all);
}

void ReadHeader(const Fields& top, Draft* draft) {
  Reporter* reporter = draft->reporter;
  if (const Tree* name = top.Require("name", {{1, 1}, 0}, reporter)) {
    draft->graph.name = ReadName(*name, "a graph", true, reporter).value_or("");
  }
  if (const Tree* text = top.Find("description")) {
    draft->graph.description = ReadText(*text, "a description", reporter).value_or("");
  }
}

void ReadGraph(const Tree& root, Draft* draft) {
  if (!CheckVersion(root, draft->reporter)) return;
  const Fields top = Fields::Read(root, "a graph", TopKeys(), draft->reporter);
  ReadHeader(top, draft);
  ReadRequires(top, draft);
  ReadDeclarations(top, draft);
  ReadBudget(top, draft);
  ReadNodes(top, draft);
  BindPorts(draft);
  ReadEdges(draft);
  const Presence presence = CheckRoutes(draft);
  CompileConditions(presence, draft);
  ReadParameters(presence, draft);
}

Graph Finish(Draft draft) {
  draft.graph.hash = HashOf(draft);
  for (NodeDraft& node : draft.nodes) {
    for (EdgeDraft& edge : node.edges) node.node.next.push_back(std::move(edge.edge));
    draft.graph.nodes.push_back(std::move(node.node));
  }
  return std::move(draft.graph);
}

LoadedGraph Load(std::string text, const std::string& name, const fs::path& folder,
                 const fs::path& root, const NodeTypeCatalog& catalog,
                 const PluginVersions* plugins) {
  LoadedGraph loaded;
  Document document = ParseDocument(std::move(text), name);
  loaded.source = document.source.text();
  loaded.diagnostics = std::move(document.diagnostics);
  if (document.usable) {
    Reporter reporter(name, &document.source, &loaded.diagnostics);
    Draft draft;
    draft.catalog = &catalog;
    draft.plugins = plugins;
    draft.root = root;
    draft.folder = folder;
    draft.reporter = &reporter;
    draft.graph.path = name;
    draft.graph.source = loaded.source;
    ReadGraph(document.root, &draft);
    if (loaded.diagnostics.empty()) loaded.graph = Finish(std::move(draft));
  }
  SortDiagnostics(&loaded.diagnostics);
  return loaded;
}

}  // namespace

LoadedGraph LoadGraph(const fs::path& file, const fs::path& root, const NodeTypeCatalog& catalog,
                      const PluginVersions* plugins) {
  Result<std::string> text = ReadFile(file, kMaxBytes);
  if (!text.ok()) {
    LoadedGraph loaded;
    loaded.diagnostics.push_back({"KE1001", file.string(), {}, text.error().message, ""});
    return loaded;
  }
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return Load(std::move(*text), file.string(), folder, root, catalog, plugins);
}

LoadedGraph LoadGraphText(const std::string& text, const std::string& name, const fs::path& root,
                          const NodeTypeCatalog& catalog, const PluginVersions* plugins) {
  return Load(text, name, root, root, catalog, plugins);
}

}  // namespace kernel_evolve::graph
