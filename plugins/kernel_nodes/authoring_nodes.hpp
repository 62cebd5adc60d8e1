// The three nodes that ask a model: analyze, generate, reflect.
#pragma once

#include "author.hpp"

namespace kernel_nodes {

// Reads the task and says what to do with it. Out: analysis {"analysis", "ideas", "rewritable"}.
class AnalyzeNode : public AuthorNode {
 public:
  using AuthorNode::AuthorNode;

 protected:
  const char* Purpose() const override { return "analyze"; }
  nlohmann::json Tools() const override;
  Answer OnTool(const std::string& name, const nlohmann::json& arguments) override;
};

// Writes the next candidate: the user's own kernel first when there is one, then the model's.
class GenerateNode : public AuthorNode {
 public:
  using AuthorNode::AuthorNode;

 protected:
  std::optional<nlohmann::json> WithoutModel() override;
  const char* Purpose() const override { return "generate"; }
  nlohmann::json Tools() const override;
  Answer OnTool(const std::string& name, const nlohmann::json& arguments) override;

 private:
  nlohmann::json Candidate(const std::string& code, const std::string& summary,
                           const nlohmann::json& parent, const std::string& origin) const;
  // What edits apply to: the best candidate, else the last one, else null.
  const nlohmann::json& Parent() const;
};

// Turns the last verdict into a lesson. Out: lessons, an array with one more line.
class ReflectNode : public AuthorNode {
 public:
  using AuthorNode::AuthorNode;

 protected:
  const char* Purpose() const override { return "reflect"; }
  nlohmann::json Tools() const override;
  Answer OnTool(const std::string& name, const nlohmann::json& arguments) override;
};

}  // namespace kernel_nodes
