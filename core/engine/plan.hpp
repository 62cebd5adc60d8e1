// What the reducer knows of a run besides its state. Immutable once made; safe to share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/graph/graph.hpp"

namespace kernel_evolve {

// What a model charges, in the profile's currency per `unit` tokens.
struct Price {
  double input = 0;
  double output = 0;
  double unit = 1e6;

  double Of(int64_t input_tokens, int64_t output_tokens) const {
    return (input * static_cast<double>(input_tokens) +
            output * static_cast<double>(output_tokens)) /
           unit;
  }
};

// What is known of a model alias before it is called.
struct ModelTerms {
  std::optional<Price> price;
  std::optional<int64_t> max_tokens;  // the longest answer that the profile allows
};

// What a node of this type declares of the result it returns.
struct ResultRules {
  std::map<std::string, graph::ValueType> fields;
  std::vector<std::string> labels;  // of `result.label`; none: it has no such member
};

struct Plan {
  const graph::Graph* graph = nullptr;  // outlives the plan
  std::string run_id;
  uint64_t seed = 0;
  Json inputs = Json::Obj();  // bound: every declared input
  Json task;                  // null without one
  graph::Budget limits;
  std::map<std::string, ModelTerms> models;    // every alias of the run
  std::map<std::string, ResultRules> results;  // node type -> rules
};

}  // namespace kernel_evolve
