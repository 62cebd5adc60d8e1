#include "prompt.hpp"

#include <kainjow/mustache.hpp>
#include <kernel_evolve/plugin.hpp>

namespace kernel_nodes {
namespace {

using nlohmann::json;

std::string Bullets(const json& list) {
  std::string out;
  for (const json& item : list) {
    if (!out.empty()) out += "\n";
    out += "- " + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return out;
}

std::string Text(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string()
             ? object[key].get<std::string>()
             : "";
}

std::string Figure(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

std::string AttemptLine(const json& attempt) {
  std::string line = Text(attempt, "id") + ": " + Text(attempt, "summary");
  if (attempt.contains("speedup") && attempt["speedup"].is_number()) {
    line += "; speedup " + Figure(attempt["speedup"]);
  } else {
    line += "; failed at " + Text(attempt, "stage") + ": " + Text(attempt, "reason");
  }
  return line;
}

std::string AttemptLines(const json& attempts) {
  json lines = json::array();
  for (const json& attempt : attempts) lines.push_back(AttemptLine(attempt));
  return Bullets(lines);
}

// Calls `visit(name)` for each tag of the template; delimiters are fixed, comments are skipped.
template <typename Visit>
void ForEachTag(const std::string& text, const Visit& visit) {
  for (size_t open = text.find("{{"); open != std::string::npos; open = text.find("{{", open)) {
    const size_t close = text.find("}}", open);
    if (close == std::string::npos) return;
    std::string tag = text.substr(open + 2, close - open - 2);
    const bool comment = !tag.empty() && tag.front() == '!';
    const size_t begin = tag.find_first_not_of("#/^{& \t");
    const size_t end = tag.find_last_not_of("} \t");
    if (!comment) visit(begin == std::string::npos ? "" : tag.substr(begin, end - begin + 1));
    open = close + 2;
  }
}

bool IsKnown(const std::string& name) {
  const std::string plain = name.rfind("has_", 0) == 0 ? name.substr(4) : name;
  return EmptyPromptData().contains(plain);
}

kainjow::mustache::mustache Parse(const json& file) {
  kainjow::mustache::mustache made(file.at("text").get<std::string>());
  if (!made.is_valid()) {
    throw kernel_evolve::sdk::PluginError(
        "validation",
        "prompt " + Text(file, "path") + " is no valid template: " + made.error_message());
  }
  made.set_custom_escape([](const std::string& text) { return text; });
  return made;
}

}  // namespace

const PromptData& EmptyPromptData() {
  static const PromptData empty = {{"task", ""},          {"hints", ""},     {"analysis", ""},
                                   {"best", ""},          {"best_id", ""},   {"best_speedup", ""},
                                   {"best_code", ""},     {"last", ""},      {"last_id", ""},
                                   {"last_feedback", ""}, {"last_code", ""}, {"attempts", ""},
                                   {"lessons", ""},       {"parent", ""},    {"parent_id", ""}};
  return empty;
}

void CheckPrompt(const json& file) {
  Parse(file);
  ForEachTag(file.at("text").get<std::string>(), [&](const std::string& name) {
    if (IsKnown(name)) return;
    std::string known;
    for (const auto& [each, unused] : EmptyPromptData())
      known += (known.empty() ? "" : ", ") + each;
    throw kernel_evolve::sdk::PluginError("validation",
                                          "prompt " + Text(file, "path") + " names '" + name +
                                              "', which no node fills in; the names are " + known +
                                              ", each also as has_<name>");
  });
}

std::string RenderPrompt(const json& file, const PromptData& data) {
  kainjow::mustache::data values;
  for (const auto& [name, unused] : EmptyPromptData()) {
    const auto found = data.find(name);
    const std::string value = found == data.end() ? "" : found->second;
    values.set(name, value);
    values.set("has_" + name, !value.empty());
  }
  return Parse(file).render(values);
}

PromptData PromptDataOf(const json& start) {
  const json empty = json::object();
  const json& in = start.contains("in") ? start["in"] : empty;
  const json& with = start.contains("with") ? start["with"] : empty;
  PromptData data;
  if (start.contains("task")) data["task"] = Text(start["task"], "source");
  if (with.contains("hints")) data["hints"] = Bullets(with["hints"]);
  if (in.contains("analysis")) data["analysis"] = Text(in["analysis"], "analysis");
  if (in.contains("lessons")) data["lessons"] = Bullets(in["lessons"]);
  if (in.contains("attempts")) data["attempts"] = AttemptLines(in["attempts"]);
  if (in.contains("best")) {
    const json& best = in["best"];
    data["best"] = data["best_id"] = Text(best, "id");
    data["best_code"] = Text(best, "code");
    if (best.contains("speedup") && best["speedup"].is_number()) {
      data["best_speedup"] = Figure(best["speedup"]);
    }
  }
  if (in.contains("candidate") && in.contains("verdict")) {
    data["last"] = data["last_id"] = Text(in["candidate"], "id");
    data["last_code"] = Text(in["candidate"], "code");
    data["last_feedback"] = VerdictText(in["verdict"]);
  }
  return data;
}

std::string VerdictText(const json& verdict) {
  json header = {{"stage", Text(verdict, "stage")}, {"class", Text(verdict, "class")}};
  for (const char* key : {"ok", "correct", "win"}) {
    if (verdict.contains(key)) header[key] = verdict[key];
  }
  if (verdict.contains("metrics") && verdict["metrics"].contains("speedup")) {
    header["speedup"] = verdict["metrics"]["speedup"];
  }
  std::string out = header.dump() + "\n" + Text(verdict, "reason");
  if (verdict.contains("feedback")) {
    for (const json& line : verdict["feedback"]) {
      if (line.is_string()) out += "\n" + line.get<std::string>();
    }
  }
  return out;
}

}  // namespace kernel_nodes
