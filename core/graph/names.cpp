// The names and types that expressions of a graph see.
#include <algorithm>

#include "core/graph/draft.hpp"

namespace kernel_evolve::graph {
namespace {

using expr::BoolType;
using expr::DoubleType;
using expr::DynType;
using expr::IntType;
using expr::ListOf;
using expr::MapOf;
using expr::RecordType;
using expr::StringType;
using expr::Type;
using expr::TypeEnv;
using Members = std::map<std::string, expr::Member>;

Type TaskType() {
  return RecordType("member of a task", {{"path", {StringType(), true}},
                                         {"name", {StringType(), true}},
                                         {"source", {StringType(), false}}});
}

Type VerdictType() {
  const Type metrics = RecordType("metric", {{"speedup", {DoubleType(), true}},
                                             {"original_time", {DoubleType(), true}},
                                             {"optimized_time", {DoubleType(), true}},
                                             {"error", {StringType(), true}}});
  return RecordType("member of a verdict", {{"format", {IntType(), true}},
                                            {"class", {StringType(), true}},
                                            {"evaluator", {MapOf(DynType()), true}},
                                            {"stage", {StringType(), false}},
                                            {"asked", {StringType(), true}},
                                            {"ok", {BoolType(), false}},
                                            {"correct", {BoolType(), true}},
                                            {"weak", {BoolType(), true}},
                                            {"win", {BoolType(), true}},
                                            {"code", {StringType(), true}},
                                            {"reason", {StringType(), true}},
                                            {"feedback", {ListOf(StringType()), true}},
                                            {"metrics", {metrics, true}},
                                            {"kernels", {ListOf(DynType()), true}},
                                            {"coverage", {MapOf(DynType()), true}},
                                            {"skipped", {ListOf(DynType()), true}},
                                            {"provenance", {MapOf(DynType()), true}},
                                            {"seconds", {MapOf(DoubleType()), true}}});
}

Type CandidateType() {
  return RecordType("member of a candidate", {{"id", {StringType(), true}},
                                              {"code", {StringType(), false}},
                                              {"summary", {StringType(), true}},
                                              {"parent", {StringType(), true}},
                                              {"origin", {StringType(), true}},
                                              {"speedup", {DoubleType(), true}},
                                              {"verdict", {VerdictType(), true}}});
}

Type TypeOf(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return BoolType();
    case ValueType::kInteger:
    case ValueType::kCount:
      return IntType();
    case ValueType::kNumber:
    case ValueType::kDuration:
      return DoubleType();
    case ValueType::kString:
      return StringType();
    case ValueType::kArray:
      return ListOf(DynType());
    case ValueType::kObject:
      return MapOf(DynType());
    case ValueType::kTask: {
      static const Type task = TaskType();
      return task;
    }
    case ValueType::kCandidate: {
      static const Type candidate = CandidateType();
      return candidate;
    }
    case ValueType::kVerdict: {
      static const Type verdict = VerdictType();
      return verdict;
    }
  }
  return DynType();
}

Type StateType(const Draft& draft, const std::set<std::string>& written) {
  if (!draft.types_known) return DynType();
  Members channels;
  for (const auto& [name, channel] : draft.graph.state) {
    channels[name] = {TypeOf(channel.type), written.count(name) == 0};
  }
  return RecordType("channel", std::move(channels));
}

Type ResultType(const NodeDraft& node) {
  if (node.type == nullptr) return DynType();
  Members members;
  for (const auto& [name, type] : node.type->result) members[name] = {TypeOf(type), false};
  if (!node.type->labels.empty()) members["label"] = {StringType(), false};
  return RecordType("member of the result of " + Quoted(node.type->name), std::move(members));
}

Type BudgetType(const Budget& budget) {
  const auto member = [](Type type, bool always) { return expr::Member{std::move(type), !always}; };
  const Members used = {
      {"wall", member(DoubleType(), true)}, {"cost", member(DoubleType(), true)},
      {"steps", member(IntType(), true)},   {"llm_calls", member(IntType(), true)},
      {"tokens", member(IntType(), true)},  {"evaluations", member(IntType(), true)}};
  const Members left = {{"wall", member(DoubleType(), budget.wall_s.has_value())},
                        {"cost", member(DoubleType(), budget.cost.has_value())},
                        {"steps", member(IntType(), budget.steps.has_value())},
                        {"llm_calls", member(IntType(), budget.llm_calls.has_value())},
                        {"tokens", member(IntType(), budget.tokens.has_value())},
                        {"evaluations", member(IntType(), budget.evaluations.has_value())}};
  return RecordType("part of the budget", {{"used", {RecordType("budget", used), false}},
                                           {"left", {RecordType("budget", left), false}}});
}

}  // namespace

TypeEnv CommonNames(const Draft& draft) {
  TypeEnv names;
  Members inputs;
  for (const auto& [name, input] : draft.graph.inputs) inputs[name] = {TypeOf(input.type), false};
  Members visits;
  for (const NodeDraft& node : draft.nodes) visits[node.node.name] = {IntType(), false};
  names["inputs"] = RecordType("input", std::move(inputs));
  names["visits"] = RecordType("node", std::move(visits));
  names["budget"] = BudgetType(draft.graph.budget);
  names["run"] = RecordType("member of 'run'", {{"id", {StringType(), false}},
                                                {"graph", {StringType(), false}},
                                                {"seed", {IntType(), false}},
                                                {"step", {IntType(), false}}});
  return names;
}

TypeEnv NamesFor(const Draft& draft, const TypeEnv& common, const std::set<std::string>& written,
                 const NodeDraft* result_of) {
  TypeEnv names = common;
  names["state"] = StateType(draft, written);
  if (result_of != nullptr) names["result"] = ResultType(*result_of);
  return names;
}

std::optional<expr::Program> CompileAt(const Tree& scalar, size_t begin, std::string_view text,
                                       const TypeEnv& names, expr::Want want, Reporter* reporter) {
  expr::Compiled compiled = expr::Program::Compile(text, names, want);
  if (compiled.problems.empty()) return std::move(compiled.program);
  const std::vector<size_t> offsets = AlignScalar(reporter->source(), scalar);
  for (const expr::Problem& problem : compiled.problems) {
    const size_t first = begin + static_cast<size_t>(problem.begin);
    const size_t last = first + static_cast<size_t>(problem.length) - 1;
    const size_t from = offsets[std::min(first, offsets.size() - 1)];
    // Up to the next character, or one byte on where the expression is over.
    const size_t to = std::max(offsets[std::min(last + 1, offsets.size() - 1)], from + 1);
    reporter->At(reporter->source().Range(from, to), problem.code, problem.message, problem.hint);
  }
  return std::nullopt;
}

}  // namespace kernel_evolve::graph
