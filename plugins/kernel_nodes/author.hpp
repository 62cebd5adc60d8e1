// The conversation that analyze, generate and reflect have with a model: ask with tools, answer
// look-ups, take one tool call, hand complaints back, give up after a few rounds. Nodes say only
// what is theirs.
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
  // Params: {"model", "prompt": {"path", "text"}, "hints", "facts"?: {"path", "text"},
  // "inspect"?: [{"path", "text"}], "prompt_tokens"}. Throws PluginError for a bad file.
  AuthorNode(kernel_evolve::sdk::Config config, const kernel_evolve::sdk::Host& host);

  kernel_evolve::sdk::Outcome Step(const nlohmann::json& event) override;

 protected:
  // The node's `done` value when it needs no model; nothing to go and ask.
  virtual std::optional<nlohmann::json> WithoutModel() { return std::nullopt; }
  virtual const char* Purpose() const = 0;
  // The tools that answer; `inspect` is added where there are pages.
  virtual nlohmann::json Tools() const = 0;
  virtual Answer OnTool(const std::string& name, const nlohmann::json& arguments) = 0;

  const nlohmann::json& start() const { return start_; }  // the start event of this activation
  const nlohmann::json& with() const { return start_.at("with"); }
  // The value of an input port, or null when it is absent.
  const nlohmann::json& In(const char* port) const;

 private:
  kernel_evolve::sdk::Outcome Ask();
  kernel_evolve::sdk::Outcome OnReply(const nlohmann::json& response);
  // Asks again, or gives up when the model had its chances.
  kernel_evolve::sdk::Outcome Again(const std::string& problem);
  nlohmann::json Pages() const;

  nlohmann::json start_;
  nlohmann::json messages_;
  int useless_ = 0;   // rounds that brought no usable answer
  int look_ups_ = 0;  // rounds that only looked something up
};

}  // namespace kernel_nodes
