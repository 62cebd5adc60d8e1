// Shape of a graph: what can be reached, and what goes round for ever. The one user of Boost.Graph.
// Internal to graph/. Pure functions.
#pragma once

#include <vector>

namespace kernel_evolve::graph {

// Nodes are 0 .. nodes-1; the end of the run is the number `nodes`.
struct Shape {
  struct Link {
    int from = 0;
    int to = 0;
    bool bounded = false;  // carries max_visits
  };
  int nodes = 0;
  int start = 0;
  std::vector<Link> links;
};

struct Cycle {
  std::vector<int> path;  // a, b, c: a leads to b, b to c, and c back to a
  int closing = 0;        // index of the link from c to a
};

// Per node: whether some way leads to it from the start.
std::vector<bool> ReachableFromStart(const Shape& shape);

// Per node: whether some way leads from it to the end.
std::vector<bool> ReachingEnd(const Shape& shape);

// The cycles without a bounded link, one per link that closes one in depth-first order; empty
// exactly when the links without a bound form no cycle.
std::vector<Cycle> UnboundedCycles(const Shape& shape);

// The nodes on a shortest way from the start to `target` that passes none of `avoid`, both ends
// included; empty when there is none. The start itself may not be avoided.
std::vector<int> WayAvoiding(const Shape& shape, int target, const std::vector<bool>& avoid);

}  // namespace kernel_evolve::graph
