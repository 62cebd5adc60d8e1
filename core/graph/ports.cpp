// Which channel each port of each node reads or writes.
#include "core/graph/draft.hpp"

namespace kernel_evolve::graph {
namespace {

const Port* FindPort(const std::vector<Port>& ports, const std::string& name) {
  for (const Port& port : ports) {
    if (port.name == name) return &port;
  }
  return nullptr;
}

std::vector<std::string> NamesOf(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

// Every port starts out on the channel of its own name.
void BindByName(NodeDraft* draft) {
  for (const Port& port : draft->type->in) {
    draft->node.in[port.name] = port.name;
    draft->node.required[port.name] = port.required;
  }
  for (const Port& port : draft->type->out) draft->node.out[port.name] = port.name;
}

// `in:` or `out:` of a node. Fills `places` with where each rebound port is written.
void Rebind(const Tree* tree, const std::string& key, const std::vector<Port>& ports,
            const std::string& uses, std::map<std::string, std::string>* bound,
            std::map<std::string, const Tree*>* places, Reporter* reporter) {
  if (tree == nullptr) return;
  for (const Member* member : Fields::ReadOpen(*tree, "'" + key + "'", reporter).All()) {
    const std::string& name = member->key.text;
    if (FindPort(ports, name) == nullptr) {
      const std::string direction = key == "in" ? "input" : "output";
      reporter->At(member->key, "KE1114",
                   Quoted(uses) + " has no " + direction + " port " + Quoted(name),
                   Suggest(name, NamesOf(ports)));
      continue;
    }
    const std::optional<std::string> channel =
        ReadName(member->value, "a channel", false, reporter);
    if (!channel) continue;
    (*bound)[name] = *channel;
    (*places)[name] = &member->value;
  }
}

// What a port carries to or from a channel of `type`: a rule that collects takes single items too.
bool Carries(const Channel& channel, ValueType port, bool writes) {
  const bool collects = channel.merge == MergeRule::kAppend || channel.merge == MergeRule::kUnion;
  if (writes) return collects || TypeFlows(port, channel.type);
  return TypeFlows(channel.type, port);
}

class Binder {
 public:
  explicit Binder(Draft* draft) : draft_(draft) {}

  void Run() {
    places_.resize(draft_->nodes.size());
    for (size_t i = 0; i < draft_->nodes.size(); ++i) {
      NodeDraft& node = draft_->nodes[i];
      if (node.type == nullptr) continue;
      BindByName(&node);
      Rebind(node.in, "in", node.type->in, node.type->name, &node.node.in, &places_[i].in,
             draft_->reporter);
      Rebind(node.out, "out", node.type->out, node.type->name, &node.node.out, &places_[i].out,
             draft_->reporter);
    }
    // Writers first: what a port writes under its own name exists for every reader.
    ForEachPort(true, [this](auto&&... args) { Declare(args...); });
    ForEachPort(false, [this](auto&&... args) { Declare(args...); });
    ForEachPort(true, [this](auto&&... args) { CheckType(args...); });
    ForEachPort(false, [this](auto&&... args) { CheckType(args...); });
  }

 private:
  struct Places {
    std::map<std::string, const Tree*> in, out;
  };

  // Calls f(node, port, channel name, where it is written or nullptr, writes).
  template <typename F>
  void ForEachPort(bool writes, F f) {
    for (size_t i = 0; i < draft_->nodes.size(); ++i) {
      NodeDraft& node = draft_->nodes[i];
      if (node.type == nullptr) continue;
      const auto& bound = writes ? node.node.out : node.node.in;
      const auto& places = writes ? places_[i].out : places_[i].in;
      for (const Port& port : writes ? node.type->out : node.type->in) {
        const auto place = places.find(port.name);
        f(node, port, bound.at(port.name), place == places.end() ? nullptr : place->second, writes);
      }
    }
  }

  void Declare(const NodeDraft& node, const Port& port, const std::string& name, const Tree* place,
               bool) {
    if (draft_->graph.state.count(name) > 0) return;
    if (place == nullptr) {
      draft_->graph.state[name] = {name, port.type, MergeRule::kReplace, true};
      made_by_[name] = node.node.name;
      return;
    }
    // A rebound port names something that must exist: it may be made by a port further down.
    for (const NodeDraft& other : draft_->nodes) {
      if (other.type == nullptr || FindPort(other.type->out, name) == nullptr) continue;
      if (other.node.out.at(name) == name) return;
    }
    if (!draft_->types_known) return;
    draft_->reporter->At(*place, "KE1113", "no channel is called " + Quoted(name),
                         Suggest(name, KeysOf(draft_->graph.state)));
  }

  void CheckType(const NodeDraft& node, const Port& port, const std::string& name,
                 const Tree* place, bool writes) {
    const auto found = draft_->graph.state.find(name);
    if (found == draft_->graph.state.end()) return;
    const Channel& channel = found->second;
    if (Carries(channel, port.type, writes)) return;
    std::string message = "port " + Quoted(port.name) + " of node " + Quoted(node.node.name) +
                          " is of type " + ValueTypeName(port.type) + ", channel " + Quoted(name) +
                          " of type " + ValueTypeName(channel.type);
    if (channel.implicit) message += " (from node " + Quoted(made_by_[name]) + ")";
    const std::string hint = writes ? "bind the port to another channel with 'out'"
                                    : "bind the port to another channel with 'in'";
    draft_->reporter->At(place != nullptr ? place->range : node.key->range, "KE1118",
                         std::move(message), hint);
  }

  Draft* draft_;
  std::vector<Places> places_;
  std::map<std::string, std::string> made_by_;
};

}  // namespace

void BindPorts(Draft* draft) { Binder(draft).Run(); }

}  // namespace kernel_evolve::graph
