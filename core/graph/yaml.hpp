// The one place that talks to the YAML library. Internal to graph/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/graph/tree.hpp"

namespace kernel_evolve::graph {

// What the library made of a text, before any check of ours.
struct RawYaml {
  struct Oddity {
    enum Kind { kTag, kAnchor, kAlias } kind;
    size_t offset;
  };
  Tree root;
  size_t documents = 0;
  size_t second_document = 0;    // offset
  std::vector<Oddity> oddities;  // in document order
  std::vector<size_t> open;      // offsets of containers that were open when it failed
  Tree last;                     // the scalar before the failure
  bool failed = false;
  bool too_deep = false;
  std::string problem;  // the library's words
  size_t problem_offset = 0;
};

RawYaml ReadYaml(const SourceMap& source);

}  // namespace kernel_evolve::graph
