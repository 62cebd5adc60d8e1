#include "core/engine/reducer.hpp"

#include <algorithm>

#include "core/base/text.hpp"
#include "core/engine/reducer_internal.hpp"

namespace kernel_evolve {
namespace {

// What a class means for the exit code once only class and message are known.
ExitCode ExitOf(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::kValidation:
      return kExitBadInput;
    case ErrorClass::kUnavailable:
    case ErrorClass::kAuth:
      return kExitEnvironment;
    default:
      return kExitFailed;
  }
}

std::string Quoted(const std::string& name) { return "'" + name + "'"; }

}  // namespace

const char* RunStatusName(RunStatus status) {
  static constexpr const char* kNames[] = {"running", "done",        "limit", "budget",
                                           "failed",  "interrupted", "parked"};
  return kNames[static_cast<size_t>(status)];
}

std::string EffectKey::Text() const {
  std::string text = node + "#" + std::to_string(visit);
  if (attempt != 1) text += "/" + std::to_string(attempt);
  return text + "." + std::to_string(sequence);
}

Json State::ToJson() const {
  Json starts = Json::Obj();
  for (const auto& [node, count] : visits) starts[node] = count;
  Json counted = Json::Obj();
  for (const auto& [alias, count] : calls) counted[alias] = count;
  Json edges = Json::Obj();
  for (const auto& [edge, count] : taken) {
    edges[edge.first + "[" + std::to_string(edge.second) + "]"] = count;
  }
  Json waiting = Json::Arr();
  for (const Activation& activation : active) {
    Json effects = Json::Arr();
    for (const Pending& pending : activation.pending) {
      effects.push_back(Json::Obj({{"key", pending.key.Text()},
                                   {"request_hash", pending.key.request_hash},
                                   {"outcome", pending.outcome.value_or(Json())}}));
    }
    waiting.push_back(Json::Obj({{"node", activation.node},
                                 {"visit", activation.visit},
                                 {"next_sequence", activation.next_sequence},
                                 {"effects", std::move(effects)}}));
  }
  return Json::Obj({{"status", RunStatusName(status)},
                    {"reason", reason},
                    {"channels", channels},
                    {"visits", std::move(starts)},
                    {"taken", std::move(edges)},
                    {"active", std::move(waiting)},
                    {"used", ledger.Used()},
                    {"calls", std::move(counted)},
                    {"largest_output", largest_output},
                    {"archive", archive.ToJson()},
                    {"events", events}});
}

std::string State::Hash() const { return Sha256Hex(ToJson().Dump()); }

State InitialState(const Plan& plan) {
  State state;
  state.ledger = Ledger(plan.limits);
  for (const graph::Node& node : plan.graph->nodes) state.visits[node.name] = 0;
  return state;
}

State Reduce(const Plan& plan, State state, const Event& event, std::vector<Command>* commands) {
  if (state.status != RunStatus::kRunning) return state;
  ++state.events;
  internal::Reduction reduction(plan, &state, commands);
  std::visit([&reduction](const auto& each) { reduction.On(each); }, event);
  return state;
}

Json OutcomeOf(const Result<Json>& result) {
  if (result.ok()) return Json::Obj({{"ok", *result}});
  const Error& error = result.error();
  return Json::Obj({{"error", Json::Obj({{"class", ErrorClassName(error.error_class)},
                                         {"message", error.message}})}});
}

Error ErrorOf(const Json& outcome) {
  const Json& error = outcome["error"];
  const ErrorClass error_class =
      ParseErrorClass(error.Text("class")).value_or(ErrorClass::kInternal);
  return {error_class, error.Text("message", "failed without a word"), ExitOf(error_class)};
}

namespace internal {

void Reduction::On(const RunStarted&) {
  Emit(Tell{Json::Obj({{"event", "run_started"},
                       {"run", plan_.run_id},
                       {"graph", plan_.graph->name},
                       {"seed", static_cast<int64_t>(plan_.seed)}})});
  Start(plan_.graph->start);
}

void Reduction::On(const StepDone& event) {
  Activation* activation = FindActive(event.node, event.visit);
  if (activation == nullptr) return;
  state_.ledger.Settle({}, event.used);
  if (!event.outcome.ok()) return Fail(event.node, event.outcome.error());
  const Json& outcome = *event.outcome;
  if (outcome.contains("effects")) return BeginEffects(activation, outcome["effects"]);
  if (outcome.contains("error")) return Fail(event.node, ErrorOf(outcome));
  const graph::Node& node = *plan_.graph->Find(event.node);
  Forget(event.node, event.visit);
  FinishNode(node, outcome["done"], event.visit);
}

void Reduction::On(const DeadlinePassed& event) {
  state_.ledger.SetWall(event.elapsed_s);
  EndOnBudget("wall");
}

void Reduction::On(const Interrupted&) { End(RunStatus::kInterrupted, "the run was interrupted"); }

void Reduction::On(const JournalFailed& event) {
  End(RunStatus::kParked, event.error.message, event.error);
}

void Reduction::Start(const std::string& name) {
  const graph::Node& node = *plan_.graph->Find(name);
  const Charge step{1, 0, 0, 0, 0};
  if (const auto refused = state_.ledger.Reserve(step)) return EndOnBudget(*refused);
  state_.ledger.Settle(step, step);
  const int64_t visit = ++state_.visits[name];
  Result<Json> ports = graph::ReadPorts(*plan_.graph, node, state_.channels);
  if (!ports) return Fail(name, ports.error());
  Result<Json> params =
      graph::EvaluateWith(node, node.with.constant() ? Json::Obj() : Roots(nullptr));
  if (!params) return Fail(name, params.error());
  Json event = Json::Obj({{"type", "start"},
                          {"node", name},
                          {"visit", visit},
                          {"inputs", plan_.inputs},
                          {"with", *params},
                          {"in", std::move(*ports)}});
  if (!plan_.task.is_null()) event["task"] = plan_.task;
  Activation activation;
  activation.node = name;
  activation.visit = visit;
  state_.active.push_back(std::move(activation));
  Emit(Tell{Json::Obj(
      {{"event", "node_started"}, {"node", name}, {"visit", visit}, {"uses", node.uses}})});
  Emit(StepNode{name, visit, true, std::move(*params), std::move(event)});
}

void Reduction::FinishNode(const graph::Node& node, const Json& done, int64_t visit) {
  Result<Json> result = CheckedResult(node, done["result"]);
  if (!result) return Fail(node.name, result.error());
  if (done["out"].size() > 0) {
    Status applied = graph::ApplyPatch(*plan_.graph, node, done["out"], &state_.channels);
    // The node's output is at fault here, not the user's graph.
    if (!applied.ok()) {
      return Fail(node.name, Failed(ErrorClass::kInvalidOutput, applied.error().message));
    }
  }
  Route(node, *result, visit);
}

Result<Json> Reduction::CheckedResult(const graph::Node& node, const Json& given) const {
  const ResultRules& rules = plan_.results.at(node.uses);
  Json out = Json::Obj();
  const auto wrong = [](const std::string& what) {
    return Failed(ErrorClass::kInvalidOutput, "it returned the result " + what);
  };
  if (given.is_object()) {
    for (const auto& [name, value] : given.object()) {
      if (value.is_null()) continue;  // a field without a value is absent
      const auto rule = rules.fields.find(name);
      if (name == "label" && !rules.labels.empty()) {
        const bool known = value.is_string() &&
                           std::count(rules.labels.begin(), rules.labels.end(), value.string()) > 0;
        if (!known) return wrong("label " + value.Dump() + ", which its type does not declare");
      } else if (rule == rules.fields.end()) {
        return wrong("field " + Quoted(name) + ", which its type does not declare");
      } else if (Status fits = graph::CheckValue(rule->second, value); !fits.ok()) {
        return wrong("field " + Quoted(name) + " with a wrong value: " + fits.error().message);
      }
      out[name] = value;
    }
  }
  return out;
}

void Reduction::Route(const graph::Node& node, const Json& result, int64_t visit) {
  std::optional<Json> roots;
  for (size_t i = 0; i < node.next.size(); ++i) {
    const graph::Edge& edge = node.next[i];
    bool holds = true;
    if (edge.when) {
      if (!roots) roots = Roots(&result);
      Result<Json> value = edge.when->Evaluate(*roots);
      if (!value || !value->is_bool()) {
        const std::string why = value ? "is no bool" : value.error().message;
        return Fail(node.name, Failed(ErrorClass::kValidation,
                                      "the edge at line " + std::to_string(edge.pos.line) +
                                          ", when " + Quoted(edge.text) + ": " + why));
      }
      holds = value->boolean();
    }
    if (holds) {
      Emit(Tell{Json::Obj({{"event", "node_finished"},
                           {"node", node.name},
                           {"visit", visit},
                           {"result", result},
                           {"to", edge.to}})});
      return Take(node, i);
    }
  }
  Fail(node.name, Failed(ErrorClass::kValidation, "no edge (line " + std::to_string(node.pos.line) +
                                                      ") matches its result " + result.Dump() +
                                                      "; add an 'else' edge"));
}

void Reduction::Take(const graph::Node& node, size_t index) {
  const graph::Edge& edge = node.next[index];
  if (edge.max_visits) {
    int64_t& count = state_.taken[{node.name, index}];
    if (count >= *edge.max_visits) {
      return End(RunStatus::kLimit, "the edge from " + Quoted(node.name) + " to " +
                                        Quoted(edge.to) + " (line " +
                                        std::to_string(edge.pos.line) + ") was taken " +
                                        std::to_string(count) + " times, its max_visits");
    }
    ++count;
  }
  if (edge.to != graph::kEnd) return Start(edge.to);
  if (state_.active.empty()) End(RunStatus::kDone, "the graph came to its end");
}

Json Reduction::Roots(const Json* result) const {
  Json visits = Json::Obj();
  for (const auto& [node, count] : state_.visits) visits[node] = count;
  Json roots = Json::Obj(
      {{"inputs", plan_.inputs},
       {"state", state_.channels},
       {"visits", std::move(visits)},
       {"budget", Json::Obj({{"used", state_.ledger.Used()}, {"left", state_.ledger.Left()}})},
       {"run", Json::Obj({{"id", plan_.run_id},
                          {"graph", plan_.graph->name},
                          {"seed", static_cast<int64_t>(plan_.seed)},
                          {"step", state_.ledger.spent().steps}})}});
  if (result != nullptr) roots["result"] = *result;
  return roots;
}

void Reduction::End(RunStatus status, std::string reason, std::optional<Error> error) {
  state_.status = status;
  state_.reason = std::move(reason);
  state_.error = std::move(error);
  Emit(Tell{Json::Obj(
      {{"event", "run_finished"}, {"status", RunStatusName(status)}, {"reason", state_.reason}})});
  Emit(Finish{});
}

void Reduction::Fail(const std::string& node, const Error& error) {
  Error told = error;
  if (told.exit_code == kExitFailed) told.exit_code = ExitOf(error.error_class);
  const std::string place = "node " + Quoted(node);
  if (error.message.rfind(place, 0) != 0) told.message = place + ": " + error.message;
  Emit(Tell{Json::Obj({{"event", "node_failed"},
                       {"node", node},
                       {"visit", state_.visits.at(node)},
                       {"class", ErrorClassName(error.error_class)},
                       {"message", error.message}})});
  std::string reason = told.message;
  End(RunStatus::kFailed, std::move(reason), std::move(told));
}

void Reduction::EndOnBudget(const std::string& budget) {
  const std::string sentence = state_.ledger.Sentence(budget);
  End(RunStatus::kBudget, sentence, Failed(ErrorClass::kBudget, sentence));
}

Activation* Reduction::FindActive(const std::string& node, int64_t visit) {
  for (Activation& activation : state_.active) {
    if (activation.node == node && activation.visit == visit) return &activation;
  }
  return nullptr;
}

void Reduction::Forget(const std::string& node, int64_t visit) {
  const auto gone = std::remove_if(
      state_.active.begin(), state_.active.end(),
      [&](const Activation& each) { return each.node == node && each.visit == visit; });
  state_.active.erase(gone, state_.active.end());
}

}  // namespace internal
}  // namespace kernel_evolve
