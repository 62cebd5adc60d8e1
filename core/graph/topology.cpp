#include "core/graph/topology.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/reverse_graph.hpp>
#include <utility>

namespace kernel_evolve::graph {
namespace {

// An edge's property is its index into Shape::links.
using Net = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                  boost::no_property, boost::property<boost::edge_index_t, int>>;
using Vertex = boost::graph_traits<Net>::vertex_descriptor;
using Link = boost::graph_traits<Net>::edge_descriptor;

Vertex AsVertex(int node) { return static_cast<Vertex>(node); }

Net Build(const Shape& shape, bool with_bounded) {
  Net net(static_cast<size_t>(shape.nodes) + 1);
  for (size_t i = 0; i < shape.links.size(); ++i) {
    const Shape::Link& link = shape.links[i];
    if (link.bounded && !with_bounded) continue;
    boost::add_edge(AsVertex(link.from), AsVertex(link.to), static_cast<int>(i), net);
  }
  return net;
}

template <typename Graph>
std::vector<bool> ReachedFrom(const Graph& net, int from) {
  const size_t count = boost::num_vertices(net);
  std::vector<boost::default_color_type> colors(count, boost::white_color);
  const auto color_map =
      boost::make_iterator_property_map(colors.begin(), boost::get(boost::vertex_index, net));
  boost::breadth_first_search(net, AsVertex(from), boost::color_map(color_map));
  std::vector<bool> reached(count - 1);
  for (size_t i = 0; i + 1 < count; ++i) reached[i] = colors[i] != boost::white_color;
  return reached;
}

class CycleFinder : public boost::default_dfs_visitor {
 public:
  CycleFinder(std::vector<int>* parents, std::vector<Cycle>* cycles)
      : parents_(parents), cycles_(cycles) {}

  void tree_edge(Link link, const Net& net) {
    (*parents_)[boost::target(link, net)] = static_cast<int>(boost::source(link, net));
  }
  // A link back to a node that is still open: the tree's path between the two closes the cycle.
  void back_edge(Link link, const Net& net) {
    Cycle cycle;
    cycle.closing = boost::get(boost::edge_index, net, link);
    const int first = static_cast<int>(boost::target(link, net));
    for (int at = static_cast<int>(boost::source(link, net)); at != first;
         at = (*parents_)[AsVertex(at)]) {
      cycle.path.push_back(at);
    }
    cycle.path.push_back(first);
    std::reverse(cycle.path.begin(), cycle.path.end());
    cycles_->push_back(std::move(cycle));
  }

 private:
  std::vector<int>* parents_;
  std::vector<Cycle>* cycles_;
};

class ParentRecorder : public boost::default_bfs_visitor {
 public:
  explicit ParentRecorder(std::vector<int>* parents) : parents_(parents) {}

  template <typename Graph>
  void tree_edge(Link link, const Graph& net) {
    (*parents_)[boost::target(link, net)] = static_cast<int>(boost::source(link, net));
  }

 private:
  std::vector<int>* parents_;
};

// Links that do not leave a node to be avoided.
struct Leaves {
  const Net* net = nullptr;
  const std::vector<bool>* avoid = nullptr;
  bool operator()(Link link) const {
    const Vertex from = boost::source(link, *net);
    return from >= avoid->size() || !(*avoid)[from];
  }
};

}  // namespace

std::vector<bool> ReachableFromStart(const Shape& shape) {
  return ReachedFrom(Build(shape, true), shape.start);
}

std::vector<bool> ReachingEnd(const Shape& shape) {
  const Net net = Build(shape, true);
  return ReachedFrom(boost::make_reverse_graph(net), shape.nodes);
}

std::vector<Cycle> UnboundedCycles(const Shape& shape) {
  const Net net = Build(shape, false);
  std::vector<Cycle> cycles;
  std::vector<int> parents(boost::num_vertices(net), -1);
  std::vector<boost::default_color_type> colors(boost::num_vertices(net), boost::white_color);
  const auto color_map =
      boost::make_iterator_property_map(colors.begin(), boost::get(boost::vertex_index, net));
  boost::depth_first_search(net, CycleFinder(&parents, &cycles), color_map, AsVertex(shape.start));
  return cycles;
}

std::vector<int> WayAvoiding(const Shape& shape, int target, const std::vector<bool>& avoid) {
  const Net net = Build(shape, true);
  const boost::filtered_graph<Net, Leaves> open(net, Leaves{&net, &avoid});
  std::vector<int> parents(boost::num_vertices(net), -1);
  boost::breadth_first_search(open, AsVertex(shape.start),
                              boost::visitor(ParentRecorder(&parents)));
  if (target != shape.start && parents[AsVertex(target)] < 0) return {};
  std::vector<int> way = {target};
  while (way.back() != shape.start) way.push_back(parents[AsVertex(way.back())]);
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace kernel_evolve::graph
