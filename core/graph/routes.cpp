// Checks that need the whole picture: reachability, cycles, and what is written on the way.
#include <algorithm>

#include "core/base/text.hpp"
#include "core/graph/draft.hpp"
#include "core/graph/topology.hpp"

namespace kernel_evolve::graph {
namespace {

class Routes {
 public:
  explicit Routes(Draft* draft) : draft_(draft), reporter_(draft->reporter) {
    shape_.nodes = static_cast<int>(draft->nodes.size());
    shape_.start = std::max(0, draft->IndexOf(draft->graph.start));
    for (size_t i = 0; i < draft->nodes.size(); ++i) {
      all_edges_known_ = all_edges_known_ && draft->nodes[i].edges_known;
      for (const EdgeDraft& edge : draft->nodes[i].edges) {
        if (!edge.resolved) continue;
        const int to = edge.edge.to == kEnd ? shape_.nodes : draft->IndexOf(edge.edge.to);
        shape_.links.push_back({static_cast<int>(i), to, edge.edge.max_visits.has_value()});
        edges_.push_back(&edge);
      }
    }
  }

  Presence Run() {
    Presence presence;
    presence.before.resize(draft_->nodes.size());
    presence.after.resize(draft_->nodes.size());
    if (draft_->nodes.empty()) return presence;
    reachable_ = ReachableFromStart(shape_);
    // An edge that could not be read may lead anywhere.
    if (draft_->start_known && all_edges_known_) CheckReach();
    CheckCycles();
    Flow(&presence);
    if (draft_->start_known && draft_->types_known) CheckRequired(presence);
    return presence;
  }

 private:
  const Node& NodeAt(int index) const { return draft_->nodes[static_cast<size_t>(index)].node; }

  std::string Path(const std::vector<int>& way) const {
    std::vector<std::string> names;
    for (const int node : way) names.push_back(NodeAt(node).name);
    return Join(names, " -> ");
  }

  void CheckReach() {
    const std::vector<bool> ending = ReachingEnd(shape_);
    for (size_t i = 0; i < draft_->nodes.size(); ++i) {
      const NodeDraft& node = draft_->nodes[i];
      if (node.node.name == kEnd) continue;  // its name is reported
      if (!reachable_[i]) {
        reporter_->At(*node.key, "KE1151",
                      "no way leads from start to node " + Quoted(node.node.name));
      } else if (!ending[i]) {
        reporter_->At(*node.key, "KE1152",
                      "no way leads from node " + Quoted(node.node.name) + " to the end",
                      "let one of its edges lead to end");
      }
    }
  }

  void CheckCycles() {
    for (const Cycle& cycle : UnboundedCycles(shape_)) {
      std::vector<int> round = cycle.path;
      round.push_back(cycle.path.front());
      const EdgeDraft& closing = *edges_[static_cast<size_t>(cycle.closing)];
      const bool plain = closing.tree->is(Tree::Kind::kScalar);
      reporter_->At(*closing.tree, "KE1153",
                    "the cycle " + Path(round) + " has no edge with max_visits",
                    plain ? "write [{to: " + closing.edge.to + ", max_visits: 100}]"
                          : "add max_visits to this edge");
    }
  }

  // Whether the node's writing leaves the channel there for certain: `best` may keep nothing.
  bool Leaves(const std::string& channel) const {
    const auto found = draft_->graph.state.find(channel);
    return found != draft_->graph.state.end() && found->second.merge != MergeRule::kBest;
  }

  // What is written on every way: start from everything, and take away until nothing changes.
  void Flow(Presence* presence) const {
    std::set<std::string> everything;
    for (const auto& [name, channel] : draft_->graph.state) everything.insert(name);
    const size_t count = draft_->nodes.size();
    for (size_t i = 0; i < count; ++i) {
      const bool first = static_cast<int>(i) == shape_.start;
      presence->before[i] = first ? std::set<std::string>{} : everything;
    }
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t i = 0; i < count; ++i) presence->after[i] = After(i, presence->before[i]);
      for (const Shape::Link& link : shape_.links) {
        if (link.to == shape_.nodes || !reachable_[static_cast<size_t>(link.from)]) continue;
        std::set<std::string>& before = presence->before[static_cast<size_t>(link.to)];
        const std::set<std::string>& after = presence->after[static_cast<size_t>(link.from)];
        const size_t size = before.size();
        std::erase_if(before, [&](const std::string& name) { return after.count(name) == 0; });
        changed = changed || before.size() != size;
      }
    }
  }

  std::set<std::string> After(size_t node, std::set<std::string> channels) const {
    for (const auto& [port, channel] : draft_->nodes[node].node.out) {
      if (Leaves(channel)) channels.insert(channel);
    }
    return channels;
  }

  void CheckRequired(const Presence& presence) {
    for (size_t i = 0; i < draft_->nodes.size(); ++i) {
      const NodeDraft& node = draft_->nodes[i];
      if (!reachable_[i]) continue;
      for (const auto& [port, required] : node.node.required) {
        const std::string& channel = node.node.in.at(port);
        if (!required || presence.before[i].count(channel) > 0) continue;
        if (draft_->graph.state.count(channel) == 0) continue;  // reported
        ReportUnwritten(static_cast<int>(i), port, channel);
      }
    }
  }

  void ReportUnwritten(int node, const std::string& port, const std::string& channel) {
    std::vector<bool> writes;
    bool anyone = false;
    for (const NodeDraft& other : draft_->nodes) {
      bool does = false;
      for (const auto& [out, written] : other.node.out) does = does || written == channel;
      anyone = anyone || does;
      writes.push_back(does && Leaves(channel));
    }
    std::string message = "node " + Quoted(NodeAt(node).name) + " needs channel " +
                          Quoted(channel) + " for its port " + Quoted(port) + ", which ";
    if (!anyone) {
      message += "no node writes";
    } else if (!Leaves(channel)) {
      message += "may stay empty under the merge rule 'best'";
    } else if (node == shape_.start) {
      message += "is not there when the run starts";
    } else {
      message += "is not written on the way " + Path(WayAvoiding(shape_, node, writes));
    }
    reporter_->At(*draft_->nodes[static_cast<size_t>(node)].key, "KE1154", std::move(message));
  }

  Draft* draft_;
  Reporter* reporter_;
  Shape shape_;
  std::vector<const EdgeDraft*> edges_;  // per link of the shape
  std::vector<bool> reachable_;
  bool all_edges_known_ = true;
};

}  // namespace

Presence CheckRoutes(Draft* draft) { return Routes(draft).Run(); }

}  // namespace kernel_evolve::graph
