// inputs, models, budget, state.
#include <cmath>

#include "core/base/text.hpp"
#include "core/graph/draft.hpp"

namespace kernel_evolve::graph {
namespace {

constexpr size_t kMaxEntries = 1000;

std::optional<ValueType> ReadType(const Tree& tree, Reporter* reporter) {
  const std::optional<std::string> text = ReadText(tree, "a type", reporter);
  if (!text) return std::nullopt;
  const std::optional<ValueType> type = ParseValueType(*text);
  if (!type) {
    reporter->At(tree, "KE1108", "there is no type " + Quoted(*text),
                 Suggest(*text, ValueTypeNames()));
  }
  return type;
}

bool IsNumeric(ValueType type) {
  return type == ValueType::kInteger || type == ValueType::kNumber ||
         type == ValueType::kDuration || type == ValueType::kCount;
}

std::optional<double> ReadBound(const Fields& fields, const char* key, ValueType type,
                                Reporter* reporter) {
  const Tree* tree = fields.Find(key);
  if (tree == nullptr) return std::nullopt;
  if (!IsNumeric(type)) {
    reporter->At(*tree, "KE1119",
                 std::string("'") + key + "' means nothing for the type " + ValueTypeName(type));
    return std::nullopt;
  }
  const std::optional<Json> value = ReadValue(*tree, type, std::string("'") + key + "'", reporter);
  if (!value) return std::nullopt;
  return value->number();
}

void ReadInput(const Member& member, Draft* draft) {
  Reporter* reporter = draft->reporter;
  const std::optional<std::string> name = ReadName(member.key, "an input", false, reporter);
  const Fields fields = Fields::Read(
      member.value, "an input", {"type", "default", "minimum", "maximum", "description"}, reporter);
  const Tree* type_tree = fields.Require("type", member.key.range, reporter);
  const std::optional<ValueType> type =
      type_tree == nullptr ? std::nullopt : ReadType(*type_tree, reporter);
  if (!name) return;
  InputDecl input;
  input.name = *name;
  if (const Tree* text = fields.Find("description")) {
    input.description = ReadText(*text, "a description", reporter).value_or("");
  }
  if (type) {
    input.type = *type;
    input.minimum = ReadBound(fields, "minimum", *type, reporter);
    input.maximum = ReadBound(fields, "maximum", *type, reporter);
    if (const Tree* value = fields.Find("default")) {
      input.default_value = ReadValue(*value, *type, "the default", reporter);
      const bool number = input.default_value && input.default_value->is_number();
      const double shown = number ? input.default_value->number() : 0;
      if (number && ((input.minimum && shown < *input.minimum) ||
                     (input.maximum && shown > *input.maximum))) {
        reporter->At(*value, "KE1119", "the default is outside minimum and maximum");
      }
    }
  }
  draft->graph.inputs[*name] = std::move(input);
}

void ReadModel(const Member& member, Draft* draft) {
  Reporter* reporter = draft->reporter;
  const std::optional<std::string> name = ReadName(member.key, "a model", true, reporter);
  const Fields fields = Fields::Read(member.value, "a model", {"needs"}, reporter);
  if (!name) return;
  ModelDecl model;
  model.name = *name;
  if (const Tree* needs = fields.Find("needs")) {
    if (!needs->is(Tree::Kind::kSequence)) {
      reporter->At(*needs, "KE1104", "'needs' must be a list of capabilities", "write [tools]");
    }
    for (const Tree& item : needs->items) {
      const std::optional<std::string> need = ReadName(item, "a capability", true, reporter);
      if (need) model.needs.push_back(*need);
    }
  }
  draft->graph.models[*name] = std::move(model);
}

void ReadChannel(const Member& member, Draft* draft) {
  Reporter* reporter = draft->reporter;
  const std::optional<std::string> name = ReadName(member.key, "a channel", false, reporter);
  const Fields fields = Fields::Read(member.value, "a channel", {"type", "merge"}, reporter);
  const Tree* type_tree = fields.Require("type", member.key.range, reporter);
  const std::optional<ValueType> type =
      type_tree == nullptr ? std::nullopt : ReadType(*type_tree, reporter);
  Channel channel;
  if (const Tree* merge = fields.Find("merge")) {
    const std::optional<std::string> text = ReadText(*merge, "'merge'", reporter);
    const std::optional<MergeRule> rule = text ? ParseMergeRule(*text) : std::nullopt;
    if (text && !rule) {
      reporter->At(*merge, "KE1109", "there is no merge rule " + Quoted(*text),
                   Suggest(*text, MergeRuleNames()));
    }
    if (rule && type && !MergeRuleFits(*rule, *type)) {
      reporter->At(*merge, "KE1110",
                   std::string("the merge rule '") + MergeRuleName(*rule) +
                       "' does not work for the type " + ValueTypeName(*type));
    }
    channel.merge = rule.value_or(MergeRule::kReplace);
  }
  if (!name) return;
  channel.name = *name;
  channel.type = type.value_or(ValueType::kObject);
  if (!type) draft->types_known = false;
  draft->graph.state[*name] = std::move(channel);
}

void ForEach(const Fields& top, const char* key, Draft* draft,
             void (*read)(const Member&, Draft*)) {
  const Tree* tree = top.Find(key);
  if (tree == nullptr) return;
  const std::string what = std::string("'") + key + "'";
  for (const Member* member : ReadEntries(*tree, what, draft->reporter)) read(*member, draft);
}

}  // namespace

std::vector<const Member*> ReadEntries(const Tree& tree, const std::string& what,
                                       Reporter* reporter) {
  std::vector<const Member*> entries;
  for (const Member* member : Fields::ReadOpen(tree, what, reporter).All()) {
    if (entries.size() == kMaxEntries) {
      reporter->At(member->key, "KE1121", what + " has more than 1000 entries");
      break;
    }
    if (!member->key.broken) entries.push_back(member);
  }
  return entries;
}

void ReadDeclarations(const Fields& top, Draft* draft) {
  ForEach(top, "inputs", draft, ReadInput);
  ForEach(top, "models", draft, ReadModel);
  ForEach(top, "state", draft, ReadChannel);
}

void ReadBudget(const Fields& top, Draft* draft) {
  const Tree* tree = top.Find("budget");
  if (tree == nullptr) return;
  Reporter* reporter = draft->reporter;
  const Fields fields = Fields::Read(
      *tree, "'budget'", {"wall", "steps", "llm_calls", "tokens", "cost", "evaluations"}, reporter);
  Budget* budget = &draft->graph.budget;
  const auto read = [&](const char* key, ValueType type) -> std::optional<Json> {
    const Tree* value = fields.Find(key);
    if (value == nullptr) return std::nullopt;
    std::optional<Json> number = ReadValue(*value, type, std::string("'") + key + "'", reporter);
    const bool runs = std::string_view(key) == "wall" || std::string_view(key) == "steps";
    if (number && (number->number() < 0 || (runs && number->number() == 0))) {
      reporter->At(*value, "KE1120", std::string("with this limit on '") + key + "' nothing runs",
                   "leave the key out for no limit");
      return std::nullopt;
    }
    return number;
  };
  if (const auto value = read("wall", ValueType::kDuration)) budget->wall_s = value->number();
  if (const auto value = read("cost", ValueType::kNumber)) budget->cost = value->number();
  if (const auto value = read("steps", ValueType::kCount)) budget->steps = value->integer();
  if (const auto value = read("llm_calls", ValueType::kCount)) budget->llm_calls = value->integer();
  if (const auto value = read("tokens", ValueType::kCount)) budget->tokens = value->integer();
  if (const auto value = read("evaluations", ValueType::kCount)) {
    budget->evaluations = value->integer();
  }
}

}  // namespace kernel_evolve::graph
