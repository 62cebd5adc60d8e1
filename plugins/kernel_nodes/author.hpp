// The conversation that every authoring node has with a model: ask with tools, take the tool call,
// hand complaints back, give up after a few rounds. Nodes say only what is theirs.
#pragma once

#include <kernel_evolve/plugin.hpp>
#include <optional>
#include <string>

namespace kernel_nodes {

// What became of one tool call: the node's `done` value, or a sentence that goes back to the model.
struct Answer {
  std::optional<nlohmann::json> done;
  std::string complaint;
};

// A resumable conversation. Subclasses are nodes; one instance serves one activation.
class AuthorNode : public kernel_evolve::sdk::Resumable {
 public:
  // Params: {"model", "prompt": {"path", "text"}, "hints"}. Throws PluginError for a bad prompt.
  AuthorNode(kernel_evolve::sdk::Config config, const kernel_evolve::sdk::Host& host);

  kernel_evolve::sdk::Outcome Step(const nlohmann::json& event) override;

 protected:
  // The node's `done` value when it needs no model; nothing to go and ask.
  virtual std::optional<nlohmann::json> WithoutModel() { return std::nullopt; }
  virtual const char* Purpose() const = 0;
  virtual nlohmann::json Tools() const = 0;
  virtual Answer OnTool(const std::string& name, const nlohmann::json& arguments) = 0;

  const nlohmann::json& start() const { return start_; }  // the start event of this activation
  const nlohmann::json& with() const { return start_.at("with"); }
  // The value of an input port, or null when it is absent.
  const nlohmann::json& In(const char* port) const;

 private:
  kernel_evolve::sdk::Outcome Ask();
  nlohmann::json Context() const;
  kernel_evolve::sdk::Outcome OnReply(const nlohmann::json& response);

  nlohmann::json start_;
  nlohmann::json messages_;
  int rounds_ = 0;
};

// {"name", "description", "parameters"} of a tool whose arguments are `properties`, all required.
nlohmann::json Tool(const char* name, const char* description, const nlohmann::json& properties);

// The candidate together with its verdict, as `best` channels and prompts keep it.
nlohmann::json WithVerdict(const nlohmann::json& candidate, const nlohmann::json& verdict);

// One line of the run's history, for the channel `attempts`.
nlohmann::json AttemptOf(const nlohmann::json& candidate, const nlohmann::json& verdict);

}  // namespace kernel_nodes
