// next: where a node leads, and on what condition.
#include <algorithm>

#include "core/graph/draft.hpp"

namespace kernel_evolve::graph {
namespace {

class EdgeReader {
 public:
  explicit EdgeReader(Draft* draft) : draft_(draft), reporter_(draft->reporter) {}

  void Read(NodeDraft* node) {
    if (node->next == nullptr || node->next->broken) return;
    const Tree& next = *node->next;
    node->edges_known = true;
    if (next.is(Tree::Kind::kScalar)) {
      EdgeDraft edge = Start(next);
      ReadTarget(next, node, &edge);
      node->edges.push_back(std::move(edge));
      return;
    }
    if (!next.is(Tree::Kind::kSequence) || next.items.empty()) {
      reporter_->At(next, "KE1104", "'next' must be a node's name or a list of edges",
                    "write [{when: ..., to: ...}, {else: ...}]");
      node->edges_known = false;
      return;
    }
    for (const Tree& item : next.items) ReadEdge(item, node);
    CheckOrder(node);
  }

 private:
  static EdgeDraft Start(const Tree& tree) {
    EdgeDraft edge;
    edge.tree = &tree;
    edge.edge.pos = tree.range.begin;
    return edge;
  }

  void ReadEdge(const Tree& item, NodeDraft* node) {
    static const std::vector<std::string> kKeys = {"when", "else", "to", "max_visits"};
    const Fields fields = Fields::Read(item, "an edge", kKeys, reporter_);
    if (!fields.ok()) {
      node->edges_known = false;
      return;
    }
    EdgeDraft edge = Start(item);
    for (const Member* member : fields.All()) {
      edge.odd = edge.odd || std::find(kKeys.begin(), kKeys.end(), member->key.text) == kKeys.end();
    }
    edge.when = fields.Find("when");
    const Tree* otherwise = fields.Find("else");
    const Tree* to = fields.Find("to");
    edge.edge.is_else = otherwise != nullptr;
    const Tree* target = to != nullptr ? to : otherwise;
    const Member* extra = otherwise == nullptr   ? nullptr
                          : edge.when != nullptr ? fields.FindMember("when")
                                                 : fields.FindMember("to");
    if (extra != nullptr) {
      reporter_->At(extra->key, "KE1143",
                    "an edge with 'else' cannot have '" + extra->key.text + "' as well",
                    "write {else: node}");
    }
    if (target == nullptr) {
      reporter_->At(item, "KE1143", "an edge needs a target", "add to: node");
      node->edges_known = false;
    } else {
      ReadTarget(*target, node, &edge);
    }
    if (const Tree* bound = fields.Find("max_visits")) ReadBound(*bound, &edge);
    node->edges.push_back(std::move(edge));
  }

  void ReadTarget(const Tree& tree, NodeDraft* node, EdgeDraft* edge) {
    const std::optional<std::string> name = ReadText(tree, "an edge's target", reporter_);
    if (name) {
      edge->edge.to = *name;
      edge->resolved = *name == kEnd || draft_->IndexOf(*name) >= 0;
    }
    if (!edge->resolved) node->edges_known = false;
    if (!name || edge->resolved) return;
    std::vector<std::string> names = {kEnd};
    for (const NodeDraft& other : draft_->nodes) names.push_back(other.node.name);
    reporter_->At(tree, "KE1103", "no node is called " + Quoted(*name), Suggest(*name, names));
  }

  void ReadBound(const Tree& tree, EdgeDraft* edge) {
    const std::optional<Json> count = ReadValue(tree, ValueType::kCount, "'max_visits'", reporter_);
    if (count && count->integer() == 0) {
      reporter_->At(tree, "KE1145", "an edge with max_visits 0 is never taken",
                    "write 1 or more, or remove the edge");
    }
    // Bounded in any case: the mistake is reported once, not as an endless cycle too.
    edge->edge.max_visits = count ? count->integer() : 1;
  }

  // First match wins: nothing can follow an edge without a condition.
  void CheckOrder(NodeDraft* node) {
    const EdgeDraft* always = nullptr;
    for (const EdgeDraft& edge : node->edges) {
      if (always != nullptr) {
        reporter_->At(*edge.tree, "KE1142", "this edge is never reached",
                      "line " + std::to_string(always->tree->range.begin.line) +
                          " has an edge without a condition before it");
        return;
      }
      if (edge.when == nullptr && !edge.odd) always = &edge;
    }
  }

  Draft* draft_;
  Reporter* reporter_;
};

// `else` may be left out only when the conditions name every label the node can give.
void CheckCoverage(const NodeDraft& node, Reporter* reporter) {
  if (!node.edges_known || node.edges.empty() || node.type == nullptr) return;
  std::vector<std::string> open = node.type->labels;
  for (const EdgeDraft& edge : node.edges) {
    if (edge.when == nullptr || edge.odd) return;
    if (!edge.edge.when) return;  // its own error is enough
    const std::optional<std::string> label = edge.edge.when->EqualsLiteral("result.label");
    if (!label) continue;
    const auto found = std::find(open.begin(), open.end(), *label);
    if (found != open.end()) open.erase(found);
    const auto& known = node.type->labels;
    if (std::find(known.begin(), known.end(), *label) == known.end()) {
      reporter->At(*edge.when, "KE1144",
                   Quoted(node.type->name) + " never gives the label " + Quoted(*label),
                   Suggest(*label, known));
    }
  }
  if (open.empty() && !node.type->labels.empty()) return;
  std::string message = "node " + Quoted(node.node.name) + " has no edge for the other cases";
  if (!node.type->labels.empty() && open.size() < node.type->labels.size()) {
    message = "node " + Quoted(node.node.name) + " has no edge for the label " + Quoted(open[0]);
  }
  reporter->At(*node.edges.back().tree, "KE1141", std::move(message), "add {else: node}");
}

}  // namespace

void ReadEdges(Draft* draft) {
  EdgeReader reader(draft);
  for (NodeDraft& node : draft->nodes) reader.Read(&node);
}

void CompileConditions(const Presence& presence, Draft* draft) {
  const expr::TypeEnv common = CommonNames(*draft);
  for (size_t i = 0; i < draft->nodes.size(); ++i) {
    NodeDraft& node = draft->nodes[i];
    const expr::TypeEnv names = NamesFor(*draft, common, presence.after[i], &node);
    for (EdgeDraft& edge : node.edges) {
      edge.edge.text = edge.edge.is_else ? "else" : "";
      if (edge.when == nullptr) continue;
      const std::optional<std::string> text = ReadText(*edge.when, "'when'", draft->reporter);
      if (!text) continue;
      edge.edge.text = *text;
      edge.edge.when =
          CompileAt(*edge.when, 0, *text, names, expr::Want::kCondition, draft->reporter);
    }
    CheckCoverage(node, draft->reporter);
  }
}

}  // namespace kernel_evolve::graph
