#include "core/plugin/outcome.hpp"

#include <functional>
#include <map>
#include <set>
#include <vector>

namespace kernel_evolve {
namespace {

Error Wrong(const std::string& where, const std::string& what) {
  return Failed(ErrorClass::kInvalidOutput, where + ": " + what);
}

// GCC 12 sees an overlap that is not there in "'" + <temporary>.
std::string Quoted(std::string_view name) { return std::string("'").append(name).append("'"); }

struct Field {
  std::string name;
  bool (*fits)(const Json& value);
  const char* what;
  bool required = true;
};

bool IsText(const Json& value) { return value.is_string() && !value.string().empty(); }
bool IsObject(const Json& value) { return value.is_object(); }
bool IsTextOrNull(const Json& value) { return value.is_null() || IsText(value); }
bool IsSeconds(const Json& value) { return value.is_number() && value.number() >= 0; }
bool IsDeadline(const Json& value) { return value.is_number() && value.number() > 0; }
bool IsCount(const Json& value) {
  return value.is_integer() && value.integer() >= 1 && value.integer() <= 1000000;
}
bool IsAsked(const Json& value) { return value == Json("compile") || value == Json("full"); }

struct EffectRule {
  bool nodes_only = false;
  std::vector<Field> fields;
};

const std::map<std::string, EffectRule>& EffectRules() {
  static const std::map<std::string, EffectRule> rules = {
      {"llm_complete",
       {true,
        {{"model", IsText, "expected the alias of a model"},
         {"request", IsObject, "expected an object"}}}},
      {"evaluate",
       {true,
        {{"candidate", IsObject, "expected an object"},
         {"asked", IsAsked, "expected \"compile\" or \"full\""}}}},
      {"worker_call",
       {false,
        {{"module", IsText, "expected the name of a module"},
         {"function", IsText, "expected the name of a function"},
         {"session", IsTextOrNull, "expected a key or null", false},
         {"request", IsObject, "expected an object"},
         {"deadline_s", IsDeadline, "expected seconds above 0", false},
         {"limits", IsObject, "expected an object", false}}}},
      {"now", {}},
      {"random", {false, {{"count", IsCount, "expected 1 to 1000000"}}}},
      {"sleep", {false, {{"seconds", IsSeconds, "expected seconds"}}}},
  };
  return rules;
}

Status CheckFields(const Json& effect, const std::string& where, const std::string& kind,
                   const std::vector<Field>& fields) {
  std::set<std::string> known = {"id", "kind"};
  for (const Field& field : fields) {
    known.insert(field.name);
    if (!effect.contains(field.name) ? field.required : !field.fits(effect[field.name])) {
      return Wrong(where + "." + field.name, field.what);
    }
  }
  for (const auto& [key, value] : effect.object()) {
    if (known.count(key) == 0) {
      return Wrong(where + "." + key, "the effect " + kind + " has no such field");
    }
  }
  return {};
}

Status CheckEffect(TypeKind type, const Json& effect, const std::string& where) {
  if (!effect.is_object()) return Wrong(where, "expected an object");
  if (!IsText(effect["id"])) return Wrong(where + ".id", "expected text");
  const std::string kind = effect.Text("kind");
  const auto rule = EffectRules().find(kind);
  if (rule == EffectRules().end()) {
    return Wrong(where + ".kind", "this host knows no effect '" + kind + "'");
  }
  if (rule->second.nodes_only && type != TypeKind::kNode) {
    return Wrong(where + ".kind", "the effect " + kind + " is for nodes, this is a" +
                                      (type == TypeKind::kProvider ? " provider" : "n evaluator"));
  }
  return CheckFields(effect, where, kind, rule->second.fields);
}

Status CheckEffects(TypeKind type, const Json& effects) {
  if (!effects.is_array() || effects.size() == 0) {
    return Wrong("effects", "expected at least one effect");
  }
  std::set<std::string> ids;
  for (size_t i = 0; i < effects.size(); ++i) {
    const Json& effect = effects.array()[i];
    const std::string where = "effects[" + std::to_string(i) + "]";
    if (Status checked = CheckEffect(type, effect, where); !checked.ok()) return checked;
    if (!ids.insert(effect.Text("id")).second) {
      return Wrong(where + ".id", Quoted(effect.Text("id")) + " is used twice");
    }
  }
  return {};
}

Status CheckDone(TypeKind type, const Json& done) {
  if (!done.is_object()) return Wrong("done", "expected an object");
  const auto expect_object = [&done](const char* key, bool required) -> Status {
    if (!done.contains(key) ? !required : done[key].is_object()) return {};
    return Wrong(std::string("done.") + key, "expected an object");
  };
  std::set<std::string> known;
  if (type == TypeKind::kProvider) known = {"response"};
  if (type == TypeKind::kEvaluator) known = {"verdict"};
  const bool required = type != TypeKind::kNode;
  if (type == TypeKind::kNode) known = {"out", "result"};
  for (const std::string& key : known) {
    if (Status checked = expect_object(key.c_str(), required); !checked.ok()) return checked;
  }
  for (const auto& [key, value] : done.object()) {
    if (known.count(key) == 0) return Wrong("done." + key, "unknown key");
  }
  return {};
}

Status CheckError(const Json& error) {
  if (!error.is_object()) return Wrong("error", "expected {\"class\", \"message\"}");
  if (!ParseErrorClass(error.Text("class"))) {
    return Wrong("error.class", Quoted(error.Text("class")) + " is not one of the error classes");
  }
  if (!IsText(error["message"])) return Wrong("error.message", "expected a sentence");
  return {};
}

}  // namespace

Status CheckOutcome(TypeKind kind, const Json& outcome) {
  if (outcome.size() != 1 || !outcome.is_object()) {
    return Wrong("outcome", "expected exactly one of effects, done and error");
  }
  const std::string& key = outcome.object().begin()->first;
  if (key == "effects") return CheckEffects(kind, outcome[key]);
  if (key == "done") return CheckDone(kind, outcome[key]);
  if (key == "error") return CheckError(outcome[key]);
  return Wrong(key, "expected exactly one of effects, done and error");
}

}  // namespace kernel_evolve
