// The node kernel/agent: one conversation in which the model validates, edits and looks up as it
// likes, until it stops calling tools or a limit ends it. Whatever its last message says, the best
// verified candidate is the answer.
#pragma once

#include <kernel_evolve/plugin.hpp>
#include <map>
#include <string>

#include "transcript.hpp"

namespace kernel_nodes {

// One instance serves one activation.
//   tools   validate_model, edit_kernel, inspect (where there are pages); several calls in one
//           answer are answered one after the other
//   ends    a model without a tool call (asked again twice while nothing is verified), max_turns,
//           target_speedup, or an effect that fails with class budget
//   out     best (only a correct one), attempts (one line per candidate), said (the model's last
//           words, never empty)
//   result  ok (there is a verified candidate), turns, attempts, win, ended ("stopped", "turns",
//           "target", "budget" or "useless": the model's answers could not be used)
class AgentNode : public kernel_evolve::sdk::Resumable {
 public:
  // Throws PluginError for a bad file.
  AgentNode(kernel_evolve::sdk::Config config, const kernel_evolve::sdk::Host& host);

  kernel_evolve::sdk::Outcome Step(const nlohmann::json& event) override;

 private:
  enum class Waiting { kReply, kCompile, kFull };

  // The rounds of the conversation.
  kernel_evolve::sdk::Outcome Begin();
  kernel_evolve::sdk::Outcome Ask();
  kernel_evolve::sdk::Outcome OnReply(const kernel_evolve::sdk::Results& results);
  kernel_evolve::sdk::Outcome OnUselessReply(const nlohmann::json& error);
  kernel_evolve::sdk::Outcome OnSilence();  // a reply without a tool call
  kernel_evolve::sdk::Outcome Finish(const char* ended);

  // The calls of one reply, one after the other.
  kernel_evolve::sdk::Outcome NextCall();
  // The candidate that a call hands in, or null with `text` to answer at once.
  nlohmann::json CandidateFrom(const nlohmann::json& call, std::string* text);
  kernel_evolve::sdk::Outcome Judge(const char* asked);
  kernel_evolve::sdk::Outcome OnVerdict(const kernel_evolve::sdk::Results& results);
  // A candidate has its verdict: keeps it and says it to the model.
  kernel_evolve::sdk::Outcome Settle(const nlohmann::json& verdict);
  kernel_evolve::sdk::Outcome GoOn(const std::string& text);

  bool TargetMet() const;
  nlohmann::json Tools() const;
  // The candidate with its id, from a call's code.
  nlohmann::json NewCandidate(const std::string& code, const std::string& summary,
                              const nlohmann::json& parent, const std::string& origin);
  // A verdict for the model, with where the search stands.
  std::string Told(const nlohmann::json& judged) const;
  // What must survive when old messages are shortened.
  std::string Standing() const;
  // The start event with what is known by now in its ports: what prompts and contexts are made of.
  nlohmann::json StartNow() const;
  const nlohmann::json& with() const { return start_.at("with"); }

  nlohmann::json start_;
  Transcript transcript_;
  Waiting waiting_ = Waiting::kReply;
  nlohmann::json calls_ = nlohmann::json::array();  // of the reply at hand
  size_t next_call_ = 0;
  nlohmann::json candidate_;                           // being judged
  nlohmann::json best_;                                // with its verdict; null
  nlohmann::json last_;                                // with its verdict; null
  std::map<std::string, nlohmann::json> by_id_;        // every candidate with its verdict
  nlohmann::json attempts_ = nlohmann::json::array();  // of this activation
  std::string said_;
  int turns_ = 0;
  int silent_ = 0;   // replies without a tool call while nothing was verified
  int useless_ = 0;  // replies in a row that could not be used
  int failed_ = 0;   // evaluations in a row that gave no verdict
};

}  // namespace kernel_nodes
