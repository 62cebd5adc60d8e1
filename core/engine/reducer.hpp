// The engine's core: a pure function from a state and an event to the next state and commands. It
// reads no clock, does no input or output and knows no thread; whoever carries out the commands
// feeds the outcomes back as events. The same events in the same order give the same state, which
// is what makes a journal of the outside results enough to come back to any point of a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/engine/budget.hpp"
#include "core/engine/model_use.hpp"
#include "core/engine/plan.hpp"
#include "core/evolve/archive.hpp"

namespace kernel_evolve {

// How a run stands. All but kRunning are final.
enum class RunStatus { kRunning, kDone, kLimit, kBudget, kFailed, kInterrupted, kParked };

// "running", "done", "limit", ...
const char* RunStatusName(RunStatus status);

// Which effect it is: the place that asked, and a hash of what it asked for.
struct EffectKey {
  std::string node;
  int64_t visit = 0;     // from 1
  int64_t attempt = 1;   // from 1
  int64_t sequence = 0;  // from 1, over all steps of the attempt
  std::string request_hash;

  bool operator==(const EffectKey&) const = default;
  // "generate#2.1": visit 2, sequence 1; for people and tables.
  std::string Text() const;
};

// An effect that an activation waits for.
struct Pending {
  Json effect;  // as the node asked, with its id
  EffectKey key;
  Charge reserved;
  Charge used;
  std::optional<Json> outcome;    // {"ok": value} or {"error": {"class", "message"}}
  std::optional<size_t> same_as;  // an earlier effect of this step that asks for the same verdict
  std::string source_hash;        // of an evaluate's candidate
};

// A node that was started and has not finished.
struct Activation {
  std::string node;
  int64_t visit = 1;
  int64_t attempt = 1;
  int64_t next_sequence = 1;
  std::vector<Pending> pending;
};

struct State {
  RunStatus status = RunStatus::kRunning;
  std::string reason;  // one sentence once the status is final
  std::optional<Error> error;
  Json channels = Json::Obj();                              // absent channels are left out
  std::map<std::string, int64_t> visits;                    // node -> times started
  std::map<std::pair<std::string, size_t>, int64_t> taken;  // bounded edge -> times taken
  std::vector<Activation> active;
  Ledger ledger;
  std::map<std::string, int64_t> calls;  // model alias -> calls handed out so far
  int64_t largest_output = 0;            // tokens of the longest answer so far, for reservations
  std::map<std::string, ModelUse> model_uses;  // model alias -> what it took so far
  Archive archive;
  int64_t events = 0;  // how many were reduced

  // Everything that the rest of the run depends on, and its SHA-256.
  Json ToJson() const;
  std::string Hash() const;
};

// Events.
struct RunStarted {};
// A step of the node's instance came back with an outcome (see sdk/ABI.md) or failed.
struct StepDone {
  std::string node;
  int64_t visit = 1;
  Result<Json> outcome;
  Charge used;  // what the node reported by itself
};
struct EffectDone {
  EffectKey key;
  Json outcome;          // {"ok": value} or {"error": {"class", "message"}}
  Charge used;           // tokens, cost; calls and evaluations are counted here
  double elapsed_s = 0;  // since the run began, by the clock
};
struct DeadlinePassed {
  double elapsed_s = 0;
};
struct Interrupted {};
// The journal can't be written: nothing may take effect any more.
struct JournalFailed {
  Error error;
};
using Event =
    std::variant<RunStarted, StepDone, EffectDone, DeadlinePassed, Interrupted, JournalFailed>;

// Commands, to be carried out in order.
struct StepNode {
  std::string node;
  int64_t visit = 1;
  bool create = false;  // with `params`; else the instance made before goes on
  Json params;
  Json event;
};
// An effect to carry out; its end is an EffectDone with the same key.
struct Perform {
  EffectKey key;
  Json effect;       // as the node asked
  Json request;      // evaluate: the evaluator's {"task", "candidate", "asked", "seed"}; else null
  int64_t call = 0;  // llm_complete: which call of its model alias it is, from 0
};
// A candidate got a verdict that was not known before.
struct Keep {
  std::string candidate_id;
  std::string source_hash;
  std::string asked;
};
// For whoever watches, and the trace: {"event": ...} as in engine.hpp.
struct Tell {
  Json event;
};
// The status is final: cancel what is in flight.
struct Finish {};
using Command = std::variant<StepNode, Perform, Keep, Tell, Finish>;

State InitialState(const Plan& plan);

// Appends to `commands`. Events that come after the end change nothing.
State Reduce(const Plan& plan, State state, const Event& event, std::vector<Command>* commands);

// {"ok": value} or {"error": {...}} from a result, and back.
Json OutcomeOf(const Result<Json>& result);
Error ErrorOf(const Json& outcome);

}  // namespace kernel_evolve
