// start and nodes: what each one uses. Its edges, ports and parameters are read by later passes.
#include "core/graph/draft.hpp"

namespace kernel_evolve::graph {
namespace {

// Words of the language that this version does not know how to run.
const std::vector<std::string>& FutureKeys() {
  static const std::vector<std::string> keys = {"parallel", "map",         "graph",  "retry",
                                                "human",    "timeout",     "budget", "on_budget",
                                                "on_error", "idle_timeout"};
  return keys;
}

// Reports the keys of the language that are not in this version; true when one of them replaces
// `uses`.
bool ReportFutureKeys(const Fields& fields, Reporter* reporter) {
  bool replaces = false;
  for (const std::string& key : FutureKeys()) {
    const Member* member = fields.FindMember(key);
    if (member == nullptr) continue;
    reporter->At(member->key, "KE1111", "'" + key + "' is not supported by this version");
    replaces = replaces || key == "parallel" || key == "map" || key == "graph" || key == "human";
  }
  return replaces;
}

std::vector<std::string> NodeKeys() {
  std::vector<std::string> keys = {"uses", "with", "in", "out", "next"};
  keys.insert(keys.end(), FutureKeys().begin(), FutureKeys().end());
  return keys;
}

void FindType(const Tree& uses, NodeDraft* draft, Draft* all) {
  const std::optional<std::string> text = ReadText(uses, "'uses'", all->reporter);
  if (!text) return;
  draft->node.uses = *text;
  const auto found = all->catalog->find(*text);
  if (found != all->catalog->end()) {
    draft->type = &found->second;
    draft->node.params_schema = std::make_shared<const Json>(found->second.params_schema);
    return;
  }
  if (*text == "human") {
    all->reporter->At(uses, "KE1111", "'human' is not supported by this version");
    return;
  }
  const std::string hint = all->catalog->empty() ? "no plugin with node types is installed"
                                                 : Suggest(*text, KeysOf(*all->catalog));
  all->reporter->At(uses, "KE1112", "there is no node type " + Quoted(*text), hint);
}

void ReadNode(const Member& member, Draft* draft) {
  Reporter* reporter = draft->reporter;
  const std::optional<std::string> name = ReadName(member.key, "a node", false, reporter);
  NodeDraft made;
  made.key = &member.key;
  made.node.name = name.value_or(member.key.text);
  made.node.pos = member.key.range.begin;
  if (name && *name == kEnd) {
    reporter->At(member.key, "KE1106", "a node cannot be called 'end': that is where runs stop",
                 "choose another name");
  }
  const Fields fields = Fields::Read(member.value, "a node", NodeKeys(), reporter);
  if (fields.ok()) {
    const bool replaces = ReportFutureKeys(fields, reporter);
    made.with = fields.Find("with");
    made.in = fields.Find("in");
    made.out = fields.Find("out");
    const Tree* uses =
        replaces ? fields.Find("uses") : fields.Require("uses", member.key.range, reporter);
    if (uses != nullptr) FindType(*uses, &made, draft);
    made.next = fields.Require("next", member.key.range, reporter);
  }
  if (made.type == nullptr) draft->types_known = false;
  draft->nodes.push_back(std::move(made));
}

}  // namespace

int Draft::IndexOf(const std::string& node) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].node.name == node) return static_cast<int>(i);
  }
  return -1;
}

void ReadNodes(const Fields& top, Draft* draft) {
  Reporter* reporter = draft->reporter;
  if (const Tree* nodes = top.Require("nodes", {{1, 1}, 0}, reporter)) {
    const std::vector<const Member*> entries = ReadEntries(*nodes, "'nodes'", reporter);
    for (const Member* member : entries) ReadNode(*member, draft);
    const bool shaped = nodes->is(Tree::Kind::kMapping) || nodes->is(Tree::Kind::kNull);
    if (shaped && entries.empty()) {
      reporter->At(*nodes, "KE1102", "'nodes' needs at least one node");
    }
  }
  const Tree* start = top.Require("start", {{1, 1}, 0}, reporter);
  if (start == nullptr) return;
  const std::optional<std::string> name = ReadText(*start, "'start'", reporter);
  if (!name) return;
  draft->graph.start = *name;
  draft->start_known = draft->IndexOf(*name) >= 0;
  if (draft->start_known) return;
  std::vector<std::string> names;
  for (const NodeDraft& node : draft->nodes) names.push_back(node.node.name);
  reporter->At(*start, "KE1103", "no node is called " + Quoted(*name), Suggest(*name, names));
}

}  // namespace kernel_evolve::graph
