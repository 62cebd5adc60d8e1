#include "author.hpp"

#include "conversation.hpp"
#include "inspect.hpp"
#include "prompt.hpp"
#include "records.hpp"

namespace kernel_nodes {
namespace {

using kernel_evolve::sdk::Outcome;
using nlohmann::json;

constexpr int kMaxUseless = 3;  // a model that fails three times rarely recovers
constexpr int kMaxLookUps = 4;  // rounds; each costs a call

}  // namespace

AuthorNode::AuthorNode(kernel_evolve::sdk::Config config, const kernel_evolve::sdk::Host& host)
    : Resumable(std::move(config), host) {
  CheckPrompt(params().at("prompt"));
  CheckPages(params().value("inspect", json::array()));
}

const json& AuthorNode::In(const char* port) const { return PortOf(start_, port); }

json AuthorNode::Pages() const { return with().value("inspect", json::array()); }

Outcome AuthorNode::Step(const json& event) {
  if (kernel_evolve::sdk::IsStart(event)) {
    start_ = event;
    if (std::optional<json> done = WithoutModel()) return Outcome::Done(*done);
    messages_ = json::array({UserMessage(PromptFor(start_))});
    return Ask();
  }
  const kernel_evolve::sdk::Results results(event);
  if (!results.Ok("author") && Text(results.Error("author"), "class") == "invalid_output") {
    const std::string problem = Text(results.Error("author"), "message");
    messages_.push_back(UserMessage("Your last answer could not be used: " + problem +
                                    ". Answer with the tool " + ToolNames(Tools()) + "."));
    return Again(problem);
  }
  return OnReply(results.Value("author"));
}

Outcome AuthorNode::Ask() {
  json tools = Tools();
  const json pages = Pages();
  if (!pages.empty()) tools.push_back(InspectTool(pages));
  json request = {{"messages", messages_},
                  {"tools", tools},
                  {"tool_choice", "required"},
                  {"sampling", json::object()},
                  {"context", ContextOf(Purpose(), start_)}};
  return Outcome::Effects(
      {kernel_evolve::sdk::CompleteEffect("author", with().at("model"), std::move(request))});
}

Outcome AuthorNode::OnReply(const json& response) {
  const json calls = response.value("tool_calls", json::array());
  messages_.push_back(SaidMessage(response));
  std::string complaint;
  if (calls.empty()) {
    complaint = "Answer with the tool " + ToolNames(Tools()) + ", not with text.";
    messages_.push_back(UserMessage(complaint));
    return Again(complaint);
  }
  const json pages = Pages();
  bool answered = false;
  for (const json& call : calls) {
    // Every call needs its answer, or the next request is refused by most endpoints.
    const std::string name = Text(call, "name");
    const json arguments = call.value("arguments", json::object());
    std::string text = "Not used: one answer at a time.";
    if (name == "inspect" && !pages.empty()) {
      text = look_ups_ < kMaxLookUps
                 ? InspectAnswer(pages, arguments)
                 : "That is enough of looking up; answer with " + ToolNames(Tools()) + ".";
    } else if (!answered) {
      answered = true;
      const Answer answer = OnTool(name, arguments);
      if (answer.done) return Outcome::Done(*answer.done);
      text = complaint = answer.complaint;
    }
    messages_.push_back(ToolMessage(call, text));
  }
  if (!answered && look_ups_++ < kMaxLookUps) return Ask();
  if (!answered) complaint = "it only looks things up";
  return Again(complaint);
}

Outcome AuthorNode::Again(const std::string& problem) {
  if (++useless_ < kMaxUseless) return Ask();
  return Outcome::Error("invalid_output", "the model gave no usable answer in " +
                                              std::to_string(kMaxUseless) +
                                              " rounds; the last problem: " + problem);
}

}  // namespace kernel_nodes
