#include "agent.hpp"

#include "conversation.hpp"
#include "edits.hpp"
#include "inspect.hpp"
#include "prompt.hpp"
#include "records.hpp"
#include "shorten.hpp"

namespace kernel_nodes {
namespace {

using kernel_evolve::sdk::CompleteEffect;
using kernel_evolve::sdk::EvaluateEffect;
using kernel_evolve::sdk::IsStart;
using kernel_evolve::sdk::NodeDone;
using kernel_evolve::sdk::Outcome;
using kernel_evolve::sdk::PluginError;
using kernel_evolve::sdk::Results;
using nlohmann::json;

constexpr int kMaxSilent = 2;   // times that a model is reminded of its tools
constexpr int kMaxUseless = 3;  // answers in a row
constexpr int kMaxFailed = 3;   // evaluations in a row
constexpr size_t kBytesPerToken = 4;
constexpr size_t kMaxSaid = 500;

json ValidateTool() {
  return Tool("validate_model",
              "Compiles a whole candidate file that defines ModelNew, checks it against the "
              "reference and times it. Returns the verdict.",
              {{"candidate_code", TextSchema("The complete Python source")},
               {"summary", TextSchema("One line: what is new in this candidate")}},
              {"summary"});
}

// Classes of an evaluation's failure that the candidate may have caused.
bool MayBeItsFault(const std::string& error_class) {
  return error_class == "timeout" || error_class == "communication";
}

}  // namespace

AgentNode::AgentNode(kernel_evolve::sdk::Config config, const kernel_evolve::sdk::Host& host)
    : Resumable(std::move(config), host) {
  CheckPrompt(params().at("prompt"));
  CheckPages(params().value("inspect", json::array()));
}

Outcome AgentNode::Step(const json& event) {
  if (IsStart(event)) {
    start_ = event;
    return Begin();
  }
  const Results results(event);
  return waiting_ == Waiting::kReply ? OnReply(results) : OnVerdict(results);
}

Outcome AgentNode::Begin() {
  const json& given = PortOf(start_, "best");
  if (given.is_object() && given.contains("verdict")) {
    best_ = last_ = given;
    by_id_[Text(best_, "id")] = best_;
    if (TargetMet()) return Finish("target");
  }
  const std::string own = Text(with(), "start");
  if (own.empty() || start_.value("visit", 1) != 1) {
    transcript_ = Transcript(PromptFor(StartNow()));
    return Ask();
  }
  // The user's own kernel is judged before anyone is asked; the prompt then tells of it.
  candidate_ = NewCandidate(own, "the starting kernel", json(), "user");
  return Judge("compile");
}

Outcome AgentNode::Ask() {
  ++turns_;
  waiting_ = Waiting::kReply;
  calls_ = json::array();
  next_call_ = 0;
  transcript_.Shorten(with().at("context_tokens").get<size_t>() * kBytesPerToken, Standing());
  json request = {{"messages", transcript_.messages()},
                  {"tools", Tools()},
                  {"tool_choice", "auto"},
                  {"sampling", json::object()},
                  {"context", ContextOf("agent", StartNow())}};
  return Outcome::Effects({CompleteEffect("agent", with().at("model"), std::move(request))});
}

Outcome AgentNode::OnReply(const Results& results) {
  if (!results.Ok("agent")) return OnUselessReply(results.Error("agent"));
  const json& response = results.Value("agent");
  useless_ = 0;
  calls_ = response.value("tool_calls", json::array());
  transcript_.Say(response);
  if (HasText(response, "text")) said_ = ShortenEnd(Text(response, "text"), kMaxSaid);
  return calls_.empty() ? OnSilence() : NextCall();
}

Outcome AgentNode::OnUselessReply(const json& error) {
  const std::string error_class = Text(error, "class");
  const std::string message = Text(error, "message");
  if (error_class == "budget") return Finish("budget");
  if (error_class != "invalid_output") throw PluginError(error_class, message);
  if (++useless_ >= kMaxUseless || turns_ >= with().at("max_turns")) {
    if (best_.is_object()) return Finish("useless");
    return Outcome::Error("invalid_output", "the model gave no usable answer in " +
                                                std::to_string(useless_) +
                                                " turns; the last problem: " + message);
  }
  transcript_.Ask("Your last answer could not be used: " + message + ". Call one of the tools " +
                  ToolNames(Tools()) + ".");
  return Ask();
}

Outcome AgentNode::OnSilence() {
  if (best_.is_object() || silent_ >= kMaxSilent) return Finish("stopped");
  if (turns_ >= with().at("max_turns")) return Finish("turns");
  ++silent_;
  transcript_.Ask(
      "No candidate has been verified yet. Call validate_model with the whole file; an answer "
      "without a tool call ends the work.");
  return Ask();
}

Outcome AgentNode::NextCall() {
  while (next_call_ < calls_.size()) {
    std::string text;
    candidate_ = CandidateFrom(calls_[next_call_], &text);
    if (candidate_.is_object()) return Judge("compile");
    transcript_.Answer(calls_[next_call_++], text);
  }
  const int max_turns = with().at("max_turns");
  if (turns_ >= max_turns) return Finish("turns");
  transcript_.Note("[turn " + std::to_string(turns_) + " of " + std::to_string(max_turns) + "]");
  return Ask();
}

json AgentNode::CandidateFrom(const json& call, std::string* text) {
  const std::string name = Text(call, "name");
  const json arguments = call.value("arguments", json::object());
  const json pages = with().value("inspect", json::array());
  std::string code;
  json parent = last_;
  if (name == "inspect" && !pages.empty()) {
    *text = InspectAnswer(pages, arguments);
    return {};
  }
  if (name == "validate_model") {
    code = Text(arguments, "candidate_code");
    if (code.empty()) *text = MissingText(name, "candidate_code");
  } else if (name == "edit_kernel") {
    if (HasText(arguments, "candidate")) {
      const auto found = by_id_.find(Text(arguments, "candidate"));
      parent = found == by_id_.end() ? json() : found->second;
    }
    if (parent.is_object()) {
      const Edited edited = ApplyEdits(Text(parent, "code"), arguments.value("edits", json()));
      code = edited.text;
      *text = edited.complaint;
    } else {
      *text = HasText(arguments, "candidate")
                  ? "there is no candidate '" + Text(arguments, "candidate") + "'"
                  : "there is no candidate to edit yet; call validate_model with a whole file";
    }
  } else {
    *text = "there is no tool called '" + name + "' here; the tools are " + ToolNames(Tools());
  }
  if (code.empty()) return {};
  for (const auto& [id, known] : by_id_) {
    if (Text(known, "code") != code) continue;
    last_ = known;
    *text = "This is the same source as " + id + ", which was judged already. " + Told(known);
    return {};
  }
  const std::string summary = HasText(arguments, "summary") ? Text(arguments, "summary") : name;
  return NewCandidate(code, summary, parent, with().at("model"));
}

Outcome AgentNode::Judge(const char* asked) {
  waiting_ = std::string(asked) == "full" ? Waiting::kFull : Waiting::kCompile;
  return Outcome::Effects({EvaluateEffect("verdict", candidate_, asked)});
}

Outcome AgentNode::OnVerdict(const Results& results) {
  if (results.Ok("verdict")) {
    failed_ = 0;
    const json verdict = results.Value("verdict");
    if (waiting_ == Waiting::kCompile && verdict.value("ok", false)) return Judge("full");
    return Settle(verdict);
  }
  const json& error = results.Error("verdict");
  const std::string error_class = Text(error, "class");
  if (error_class == "budget") return Finish("budget");
  if (!MayBeItsFault(error_class) || ++failed_ >= kMaxFailed) {
    throw PluginError(error_class, Text(error, "message"));
  }
  return Settle({{"stage", "evaluation"}, {"ok", false}, {"reason", Text(error, "message")}});
}

Outcome AgentNode::Settle(const json& verdict) {
  attempts_.push_back(AttemptOf(candidate_, verdict));
  last_ = WithVerdict(candidate_, verdict);
  by_id_[Text(last_, "id")] = last_;
  if (IsBetter(last_, best_)) best_ = last_;
  if (TargetMet()) return Finish("target");
  return GoOn(Told(last_));
}

Outcome AgentNode::GoOn(const std::string& text) {
  if (turns_ == 0) {  // the user's own kernel: nobody has been asked yet
    transcript_ = Transcript(PromptFor(StartNow()));
    return Ask();
  }
  transcript_.Answer(calls_[next_call_++], text);
  return NextCall();
}

Outcome AgentNode::Finish(const char* ended) {
  const bool ok = best_.is_object() && IsCorrect(best_.value("verdict", json::object()));
  json out = {{"attempts", attempts_},
              {"said", said_.empty() ? "the model called no tool and said nothing" : said_}};
  if (ok) out["best"] = best_;
  const json verdict = ok ? best_["verdict"] : json::object();
  return NodeDone(std::move(out), {{"ok", ok},
                                   {"turns", turns_},
                                   {"attempts", attempts_.size()},
                                   {"win", verdict.value("win", false)},
                                   {"ended", ended}});
}

bool AgentNode::TargetMet() const {
  const double target = with().at("target_speedup");
  return target > 0 && best_.is_object() && best_.contains("speedup") &&
         best_["speedup"].is_number() && best_["speedup"].get<double>() >= target;
}

json AgentNode::Tools() const {
  json tools = json::array({ValidateTool(), EditTool(true)});
  const json pages = with().value("inspect", json::array());
  if (!pages.empty()) tools.push_back(InspectTool(pages));
  return tools;
}

json AgentNode::NewCandidate(const std::string& code, const std::string& summary,
                             const json& parent, const std::string& origin) {
  // A graph may have several agents, or visit one twice: the name keeps their candidates apart.
  const std::string node = start_.value("node", "agent");
  const int visit = start_.value("visit", 1);
  std::string name = node == "agent" && visit == 1 ? "c" : node + "-";
  if (visit > 1) name += std::to_string(visit) + "-";
  return {{"id", name + std::to_string(attempts_.size() + 1)},
          {"code", code},
          {"summary", summary},
          {"parent", parent.is_object() ? parent.value("id", json()) : json()},
          {"origin", origin}};
}

std::string AgentNode::Told(const json& judged) const {
  const std::string id = Text(judged, "id");
  std::string told = id + ": " + VerdictText(judged.at("verdict"));
  if (!best_.is_object()) return told + "\nNo candidate is verified so far.";
  if (Text(best_, "id") == id) return told + "\nIt is the best so far.";
  const std::string speedup = SpeedupText(best_);
  return told + "\nThe best so far is " + Text(best_, "id") +
         (speedup.empty() ? "." : ", " + speedup + ".");
}

std::string AgentNode::Standing() const {
  if (!last_.is_object()) return "";
  std::string out = "Earlier turns are shortened below. Where the work stands:";
  const auto add = [&out](const char* what, const json& judged) {
    out += "\n\n" + std::string(what) + " " + Text(judged, "id") + ". " +
           VerdictText(judged.at("verdict")) + "\n\n```python\n" + Text(judged, "code") + "\n```";
  };
  if (best_.is_object()) add("The best verified candidate is", best_);
  if (!best_.is_object() || Text(best_, "id") != Text(last_, "id")) {
    add("The last candidate is", last_);
  }
  return out;
}

json AgentNode::StartNow() const {
  json now = start_;
  json& in = now["in"];
  if (!in.is_object()) in = json::object();
  if (best_.is_object()) in["best"] = best_;
  if (last_.is_object()) {
    in["candidate"] = last_;
    in["verdict"] = last_.at("verdict");
  }
  json attempts = in.value("attempts", json::array());
  for (const json& attempt : attempts_) attempts.push_back(attempt);
  in["attempts"] = std::move(attempts);
  return now;
}

}  // namespace kernel_nodes
