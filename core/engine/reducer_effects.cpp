// The part of the reducer that answers what a node asks for.
#include <algorithm>

#include "core/base/text.hpp"
#include "core/engine/random.hpp"
#include "core/engine/reducer_internal.hpp"
#include "core/evolve/source.hpp"
#include "core/evolve/verdict.hpp"
#include "core/llm/message.hpp"

namespace kernel_evolve::internal {
namespace {

RandomStream StreamOf(const Plan& plan, const EffectKey& key) {
  return {plan.seed, key.node, key.visit, key.attempt, key.sequence};
}

Json RandomNumbers(const RandomStream& stream, int64_t count) {
  Json numbers = Json::Arr();
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(stream.Uniform(static_cast<uint64_t>(i)));
  }
  return numbers;
}

Json Refusal(const std::string& message) {
  return OutcomeOf(Failed(ErrorClass::kValidation, message));
}

bool IsFull(const Json& effect) { return effect.Text("asked") == "full"; }

}  // namespace

void Reduction::BeginEffects(Activation* activation, const Json& effects) {
  activation->pending.clear();
  activation->pending.reserve(effects.size());
  for (const Json& effect : effects.array()) {
    Pending pending;
    pending.effect = effect;
    Json asked = effect;
    asked.object().erase("id");  // a name for the node's own use
    pending.key = {activation->node, activation->visit, activation->attempt,
                   activation->next_sequence++, Sha256Hex(asked.Dump())};
    Prepare(activation, &pending);
    activation->pending.push_back(std::move(pending));
  }
  // All or nothing: half of a step's effects would be of no use to the node.
  for (Pending& pending : activation->pending) {
    if (const auto refused = state_.ledger.Reserve(pending.reserved)) return EndOnBudget(*refused);
  }
  for (const Pending& pending : activation->pending) Dispatch(pending);
  Answer(activation);
}

void Reduction::Prepare(Activation* activation, Pending* pending) {
  const std::string kind = pending->effect.Text("kind");
  if (kind == "random") {
    pending->outcome = OutcomeOf(
        RandomNumbers(StreamOf(plan_, pending->key), pending->effect.Integer("count", 1)));
  } else if (kind == "llm_complete") {
    PrepareCall(pending);
  } else if (kind == "evaluate") {
    PrepareEvaluation(activation, pending);
  }
}

void Reduction::PrepareCall(Pending* pending) {
  const std::string alias = pending->effect.Text("model");
  const auto model = plan_.models.find(alias);
  if (model == plan_.models.end()) {
    pending->outcome = Refusal("no model is called '" + alias + "' in this run");
    return;
  }
  const Json& request = pending->effect["request"];
  if (Status checked = CheckRequest(request); !checked.ok()) {
    pending->outcome = Refusal(checked.error().message);
    return;
  }
  const int64_t input = EstimateInputTokens(request);
  const int64_t longest = model->second.max_tokens.value_or(state_.largest_output);
  const int64_t output = request["sampling"].Integer("max_tokens", longest);
  pending->reserved.llm_calls = 1;
  pending->reserved.tokens = input + std::max<int64_t>(output, 0);
  const std::optional<Price>& price = model->second.price;
  if (price) pending->reserved.cost = price->Of(input, output);
}

void Reduction::PrepareEvaluation(Activation* activation, Pending* pending) {
  const Json& candidate = pending->effect["candidate"];
  if (Trim(candidate.Text("code")).empty()) {
    pending->outcome = Refusal("the candidate has no code to evaluate");
    return;
  }
  const Archive::Entry& entry = state_.archive.Add(candidate);
  pending->source_hash = entry.source_hash;
  const std::string asked = pending->effect.Text("asked");
  if (const Json* known = state_.archive.FindVerdict(entry.source_hash, asked)) {
    pending->outcome = OutcomeOf(*known);
    Emit(Tell{Json::Obj({{"event", "effect_reused"},
                         {"kind", "evaluate"},
                         {"node", pending->key.node},
                         {"visit", pending->key.visit},
                         {"candidate", entry.id},
                         {"asked", asked}})});
    return;
  }
  for (size_t i = 0; i < activation->pending.size(); ++i) {
    const Pending& other = activation->pending[i];
    if (other.source_hash != entry.source_hash || other.effect.Text("asked") != asked) continue;
    pending->same_as = i;
    return;
  }
  // A budget of evaluations is one of verdicts; a trial compile costs none.
  if (IsFull(pending->effect)) pending->reserved.evaluations = 1;
}

void Reduction::Dispatch(const Pending& pending) {
  if (pending.outcome || pending.same_as) return;
  Perform perform;
  perform.key = pending.key;
  perform.effect = pending.effect;
  const std::string kind = pending.effect.Text("kind");
  if (kind == "llm_complete") perform.call = state_.calls[pending.effect.Text("model")]++;
  if (kind == "evaluate") {
    Json candidate = pending.effect["candidate"];
    if (candidate.Text("id").empty()) {
      candidate["id"] = state_.archive.Find(pending.source_hash)->id;
    }
    perform.request = Json::Obj({{"task", plan_.task},
                                 {"candidate", std::move(candidate)},
                                 {"asked", pending.effect["asked"]},
                                 // One seed a run: the evaluator makes its references once. No
                                 // candidate sees it, or the data that come of it.
                                 {"seed", static_cast<int64_t>(plan_.seed)}});
    // What this source's trial compile found may spare the evaluator the same work.
    const Json* compiled = state_.archive.FindVerdict(pending.source_hash, "compile");
    if (IsFull(pending.effect) && compiled != nullptr) perform.request["compiled"] = *compiled;
  }
  Emit(std::move(perform));
}

void Reduction::On(const EffectDone& event) {
  state_.ledger.SetWall(event.elapsed_s);
  Activation* activation = FindActive(event.key.node, event.key.visit);
  if (activation == nullptr) return;
  for (Pending& pending : activation->pending) {
    if (!(pending.key == event.key) || pending.outcome) continue;
    pending.outcome = event.outcome;
    pending.used = event.used;
    return Answer(activation);
  }
}

// Goes on with the node once everything it asked for is there. Settling waits for that moment too
// and goes in the order of asking, so that the order of arrival changes nothing.
void Reduction::Answer(Activation* activation) {
  for (const Pending& pending : activation->pending) {
    if (!pending.outcome && !pending.same_as) return;
  }
  bool spent = false;
  Json results = Json::Obj();
  for (Pending& pending : activation->pending) {
    if (pending.same_as) {
      pending.outcome = activation->pending[*pending.same_as].outcome;
    } else {
      Settle(&pending);
      spent = spent || pending.reserved.llm_calls > 0 || pending.reserved.evaluations > 0;
    }
    results[pending.effect.Text("id")] = *pending.outcome;
  }
  activation->pending.clear();
  if (spent) {
    Emit(Tell{Json::Obj(
        {{"event", "budget"}, {"used", state_.ledger.Used()}, {"left", state_.ledger.Left()}})});
  }
  Emit(StepNode{activation->node,
                activation->visit,
                false,
                {},
                Json::Obj({{"type", "results"}, {"results", std::move(results)}})});
}

void Reduction::Settle(Pending* pending) {
  Charge used = pending->used;
  used.llm_calls = pending->reserved.llm_calls;
  used.evaluations = pending->reserved.evaluations;
  state_.ledger.Settle(pending->reserved, used);
  const std::string kind = pending->effect.Text("kind");
  if (kind == "llm_complete" && used.llm_calls > 0) {
    state_.model_uses[pending->effect.Text("model")].Add(*pending->outcome, used.cost);
    pending->outcome->object().erase("call");  // what a node sees does not depend on the clock
  }
  const Json& outcome = *pending->outcome;
  if (!outcome.contains("ok")) return;
  if (kind == "llm_complete") {
    state_.largest_output = std::max(state_.largest_output, UsageOf(outcome["ok"]).output);
    Result<Json> checked = CheckResponse(pending->effect["request"], outcome["ok"]);
    pending->outcome = OutcomeOf(checked);
  } else if (kind == "evaluate") {
    TakeVerdict(pending);
  }
}

void Reduction::TakeVerdict(Pending* pending) {
  const Json& verdict = (*pending->outcome)["ok"];
  if (Status checked = CheckVerdict(verdict); !checked.ok()) {
    pending->outcome = OutcomeOf(checked.error());
    return;
  }
  const std::string asked = pending->effect.Text("asked");
  if (state_.archive.FindVerdict(pending->source_hash, asked) != nullptr) return;
  state_.archive.Record(pending->source_hash, asked, verdict);
  Emit(Keep{state_.archive.Find(pending->source_hash)->id, pending->source_hash, asked});
}

}  // namespace kernel_evolve::internal
