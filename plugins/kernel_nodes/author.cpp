#include "author.hpp"

#include "prompt.hpp"

namespace kernel_nodes {
namespace {

using kernel_evolve::sdk::Outcome;
using nlohmann::json;

constexpr int kMaxRounds = 3;  // asked again twice: a model that fails three times rarely recovers

std::string ToolNames(const json& tools) {
  std::string out;
  for (const json& tool : tools) {
    out += (out.empty() ? "" : " or ") + tool.at("name").get<std::string>();
  }
  return out;
}

}  // namespace

AuthorNode::AuthorNode(kernel_evolve::sdk::Config config, const kernel_evolve::sdk::Host& host)
    : Resumable(std::move(config), host) {
  CheckPrompt(params().at("prompt"));
}

const json& AuthorNode::In(const char* port) const {
  static const json null;
  const auto in = start_.find("in");
  if (in == start_.end() || !in->contains(port)) return null;
  return in->at(port);
}

Outcome AuthorNode::Step(const json& event) {
  if (!kernel_evolve::sdk::IsStart(event)) {
    return OnReply(kernel_evolve::sdk::Results(event).Value("author"));
  }
  start_ = event;
  if (std::optional<json> done = WithoutModel()) return Outcome::Done(*done);
  messages_ = json::array(
      {{{"role", "user"}, {"content", RenderPrompt(with().at("prompt"), PromptDataOf(start_))}}});
  return Ask();
}

Outcome AuthorNode::Ask() {
  ++rounds_;
  json request = {{"messages", messages_},
                  {"tools", Tools()},
                  {"tool_choice", "required"},
                  {"sampling", json::object()},
                  {"context", Context()}};
  return Outcome::Effects(
      {kernel_evolve::sdk::CompleteEffect("author", with().at("model"), std::move(request))});
}

json AuthorNode::Context() const {
  json context = {{"purpose", Purpose()},
                  {"task", start_.value("task", json())},
                  {"hints", with().value("hints", json::array())},
                  {"attempts", In("attempts").is_array() ? In("attempts") : json::array()},
                  {"lessons", In("lessons").is_array() ? In("lessons") : json::array()},
                  {"best", In("best")},
                  {"parent", In("best").is_object() ? In("best") : In("candidate")},
                  {"last", nullptr},
                  {"start", nullptr},
                  {"analysis", ""},
                  {"generation", start_.value("visit", 1)}};
  if (In("candidate").is_object() && In("verdict").is_object()) {
    context["last"] = WithVerdict(In("candidate"), In("verdict"));
  }
  if (In("analysis").is_object()) context["analysis"] = In("analysis").value("analysis", "");
  if (!with().value("start", "").empty()) context["start"] = with()["start"];
  return context;
}

Outcome AuthorNode::OnReply(const json& response) {
  const json calls = response.value("tool_calls", json::array());
  Answer answer;
  if (calls.empty()) {
    answer.complaint = "Answer with the tool " + ToolNames(Tools()) + ", not with text.";
  } else {
    answer = OnTool(calls[0].value("name", ""), calls[0].value("arguments", json::object()));
  }
  if (answer.done) return Outcome::Done(*answer.done);
  if (rounds_ >= kMaxRounds) {
    return Outcome::Error("invalid_output", "the model gave no usable answer in " +
                                                std::to_string(kMaxRounds) +
                                                " rounds; the last problem: " + answer.complaint);
  }
  json said = {{"role", "assistant"}, {"content", response.value("text", "")}};
  if (!calls.empty()) said["tool_calls"] = calls;
  messages_.push_back(std::move(said));
  if (calls.empty()) messages_.push_back({{"role", "user"}, {"content", answer.complaint}});
  for (size_t i = 0; i < calls.size(); ++i) {
    // Every call needs its answer, or the next request is refused by most endpoints.
    messages_.push_back({{"role", "tool"},
                         {"tool_call_id", calls[i].value("id", "")},
                         {"content", i == 0 ? answer.complaint : "Not used: one call at a time."}});
  }
  return Ask();
}

json Tool(const char* name, const char* description, const json& properties) {
  json required = json::array();
  for (const auto& [key, unused] : properties.items()) required.push_back(key);
  return {{"name", name},
          {"description", description},
          {"parameters",
           {{"type", "object"},
            {"properties", properties},
            {"required", required},
            {"additionalProperties", false}}}};
}

json WithVerdict(const json& candidate, const json& verdict) {
  json out = candidate;
  out["verdict"] = verdict;
  const json metrics = verdict.value("metrics", json::object());
  if (metrics.contains("speedup") && metrics["speedup"].is_number()) {
    out["speedup"] = metrics["speedup"];
  }
  return out;
}

json AttemptOf(const json& candidate, const json& verdict) {
  const json metrics = verdict.value("metrics", json::object());
  return {{"id", candidate.value("id", "")},
          {"summary", candidate.value("summary", "")},
          {"parent", candidate.value("parent", json())},
          {"stage", verdict.value("stage", "")},
          {"ok", verdict.value("ok", false)},
          {"correct", verdict.value("correct", json())},
          {"speedup", metrics.value("speedup", json())},
          {"reason", verdict.value("reason", "")}};
}

}  // namespace kernel_nodes
