#include "authoring_nodes.hpp"

#include "conversation.hpp"
#include "edits.hpp"

namespace kernel_nodes {
namespace {

using nlohmann::json;

Answer Missing(const std::string& tool, const char* key) {
  return {std::nullopt, MissingText(tool, key)};
}

Answer Unknown(const std::string& tool) {
  return {std::nullopt, "there is no tool called '" + tool + "' here"};
}

}  // namespace

json AnalyzeNode::Tools() const {
  return json::array(
      {Tool("submit_analysis", "Hands over the analysis of the task.",
            {{"analysis", TextSchema("What runs, what is wasted, which rewrite removes the waste")},
             {"ideas",
              {{"type", "array"},
               {"items", {{"type", "string"}}},
               {"description", "Rewrites to try, the most promising first"}}},
             {"rewritable",
              {{"type", "boolean"},
               {"description", "false when no part can become a Triton kernel"}}}})});
}

Answer AnalyzeNode::OnTool(const std::string& name, const json& arguments) {
  if (name != "submit_analysis") return Unknown(name);
  if (!HasText(arguments, "analysis")) return Missing(name, "analysis");
  const bool rewritable = !arguments.contains("rewritable") || arguments["rewritable"] != false;
  json analysis = {{"analysis", arguments["analysis"]},
                   {"ideas", arguments.value("ideas", json::array())},
                   {"rewritable", rewritable}};
  return {json{{"out", {{"analysis", analysis}}},
               {"result", {{"ok", true}, {"rewritable", rewritable}}}},
          ""};
}

std::optional<json> GenerateNode::WithoutModel() {
  const std::string own = with().value("start", "");
  if (own.empty() || start().value("visit", 1) != 1) return std::nullopt;
  return json{{"out", {{"candidate", Candidate(own, "the starting kernel", nullptr, "user")}}},
              {"result", {{"ok", true}}}};
}

const json& GenerateNode::Parent() const {
  return In("best").is_object() ? In("best") : In("candidate");
}

json GenerateNode::Tools() const {
  json tools =
      json::array({Tool("submit_kernel", "Hands over a whole candidate file that defines ModelNew.",
                        {{"code", TextSchema("The complete Python source")},
                         {"summary", TextSchema("One line: what is new in this candidate")}})});
  if (Parent().is_object()) tools.push_back(EditTool(false));
  return tools;
}

json GenerateNode::Candidate(const std::string& code, const std::string& summary,
                             const json& parent, const std::string& origin) const {
  // A graph may have several generating nodes: the name keeps their candidates apart.
  const std::string node = start().value("node", "generate");
  const std::string number = std::to_string(start().value("visit", 1));
  return {{"id", node == "generate" ? "c" + number : node + "-" + number},
          {"code", code},
          {"summary", summary},
          {"parent", parent.is_object() ? parent.value("id", json()) : json()},
          {"origin", origin}};
}

Answer GenerateNode::OnTool(const std::string& name, const json& arguments) {
  std::string code;
  json parent = Parent();
  if (name == "submit_kernel") {
    if (!HasText(arguments, "code")) return Missing(name, "code");
    code = arguments["code"];
  } else if (name == "edit_kernel" && parent.is_object()) {
    Edited edited = ApplyEdits(parent.value("code", ""), arguments.value("edits", json()));
    if (!edited.complaint.empty()) return {std::nullopt, edited.complaint};
    code = edited.text;
  } else {
    return Unknown(name);
  }
  const std::string summary =
      HasText(arguments, "summary") ? arguments["summary"].get<std::string>() : name;
  const json candidate = Candidate(code, summary, parent, with().at("model"));
  return {json{{"out", {{"candidate", candidate}}}, {"result", {{"ok", true}}}}, ""};
}

json ReflectNode::Tools() const {
  return json::array({Tool("record_lesson", "Keeps what this verdict teaches.",
                           {{"lesson", TextSchema("One or two sentences: cause and effect")},
                            {"next", TextSchema("What to try next")}})});
}

Answer ReflectNode::OnTool(const std::string& name, const json& arguments) {
  if (name != "record_lesson") return Unknown(name);
  if (!HasText(arguments, "lesson")) return Missing(name, "lesson");
  std::string line = In("candidate").is_object() ? In("candidate").value("id", "") + ": " : "";
  line += arguments["lesson"].get<std::string>();
  if (HasText(arguments, "next")) line += " Next: " + arguments["next"].get<std::string>();
  return {json{{"out", {{"lessons", json::array({line})}}}, {"result", {{"ok", true}}}}, ""};
}

}  // namespace kernel_nodes
