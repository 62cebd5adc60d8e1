#include "prompt.hpp"

#include <algorithm>
#include <kainjow/mustache.hpp>
#include <kernel_evolve/plugin.hpp>
#include <vector>

#include "conversation.hpp"
#include "records.hpp"
#include "shorten.hpp"

namespace kernel_nodes {
namespace {

using nlohmann::json;

constexpr size_t kBytesPerToken = 4;  // about what code and English take
constexpr int kDefaultTokens = 24000;
constexpr size_t kFloor = 600;  // bytes that a piece keeps while others can still give

using Shorten = std::string (*)(const std::string&, size_t);

// A piece that may be cut. Groups are cut in rising order.
struct Piece {
  const char* name;
  int group;
  Shorten shorten;
};
constexpr Piece kPieces[] = {
    {"attempts", 0, &ShortenList},    {"lessons", 0, &ShortenList},
    {"analysis", 0, &ShortenEnd},     {"last_feedback", 0, &ShortenEnd},
    {"last_code", 1, &ShortenMiddle}, {"facts", 1, &ShortenEnd},
    {"best_code", 2, &ShortenMiddle}, {"hints", 2, &ShortenEnd},
};
constexpr int kGroups = 3;

std::string Bullets(const json& list) {
  std::string out;
  for (const json& item : list) {
    if (!out.empty()) out += "\n";
    out += "- " + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return out;
}

// Without line ends at the end: templates put their own.
std::string Trimmed(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
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

// A section's tag or a comment on a line of its own is no line of the prompt. (The library
// leaves an empty one where a section is skipped.)
std::string WithoutTagLines(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    const size_t begin = line.find_first_not_of(" \t");
    const size_t close = line.find("}}");
    const bool tag = begin != std::string::npos && close != std::string::npos &&
                     line.compare(begin, 2, "{{") == 0 &&
                     std::string("#^/!").find(line[begin + 2]) != std::string::npos &&
                     line.find_first_not_of(" \t\r\n", close + 2) == std::string::npos;
    out += tag ? line.substr(begin, close + 2 - begin) : line;
    at = end;
  }
  return out;
}

kainjow::mustache::mustache Parse(const json& file) {
  kainjow::mustache::mustache made(WithoutTagLines(file.at("text").get<std::string>()));
  if (!made.is_valid()) {
    throw kernel_evolve::sdk::PluginError(
        "validation",
        "prompt " + Text(file, "path") + " is no valid template: " + made.error_message());
  }
  made.set_custom_escape([](const std::string& text) { return text; });
  return made;
}

// The largest size that pieces may have so that cutting all longer ones to it sheds `excess` bytes;
// kFloor when nothing does.
size_t CapFor(const std::vector<std::string*>& pieces, size_t excess) {
  std::vector<size_t> sizes;
  sizes.reserve(pieces.size());
  for (const std::string* piece : pieces) sizes.push_back(piece->size());
  std::sort(sizes.rbegin(), sizes.rend());
  size_t longest = 0;  // the sum of the `count` longest
  for (size_t count = 1; count <= sizes.size(); ++count) {
    longest += sizes[count - 1];
    const size_t next = count < sizes.size() ? sizes[count] : 0;
    if (longest < excess) continue;
    const size_t cap = (longest - excess) / count;
    if (cap >= next) return std::max(cap, kFloor);
  }
  return kFloor;
}

}  // namespace

const PromptData& EmptyPromptData() {
  static const PromptData empty = {
      {"task", ""},     {"facts", ""},   {"hints", ""},     {"analysis", ""},
      {"best", ""},     {"best_id", ""}, {"best_code", ""}, {"best_speedup", ""},
      {"last", ""},     {"last_id", ""}, {"last_code", ""}, {"last_feedback", ""},
      {"attempts", ""}, {"lessons", ""}, {"parent", ""},    {"parent_id", ""}};
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

std::string FitPrompt(const json& file, const PromptData& data, size_t bytes) {
  std::string prompt = RenderPrompt(file, data);
  PromptData cut = data;
  for (int group = 0; group < kGroups && prompt.size() > bytes; ++group) {
    std::vector<const Piece*> kinds;
    std::vector<std::string*> pieces;
    for (const Piece& piece : kPieces) {
      bool named = false;
      ForEachTag(file.at("text").get<std::string>(),
                 [&](const std::string& name) { named = named || name == piece.name; });
      const auto found = cut.find(piece.name);
      if (!named || piece.group != group || found == cut.end()) continue;
      kinds.push_back(&piece);
      pieces.push_back(&found->second);
    }
    if (pieces.empty()) continue;
    const size_t cap = CapFor(pieces, prompt.size() - bytes);
    for (size_t i = 0; i < pieces.size(); ++i) *pieces[i] = kinds[i]->shorten(*pieces[i], cap);
    prompt = RenderPrompt(file, cut);
  }
  return prompt;
}

PromptData PromptDataOf(const json& start) {
  const json empty = json::object();
  const json& with = start.contains("with") ? start["with"] : empty;
  PromptData data;
  if (start.contains("task")) data["task"] = Trimmed(Text(start["task"], "source"));
  if (with.contains("facts")) data["facts"] = Trimmed(Text(with["facts"], "text"));
  if (with.contains("hints")) data["hints"] = Bullets(with["hints"]);
  data["analysis"] = Text(PortOf(start, "analysis"), "analysis");
  data["lessons"] = Bullets(PortOf(start, "lessons"));
  data["attempts"] = AttemptLines(PortOf(start, "attempts"));
  const json& best = PortOf(start, "best");
  const json& last = PortOf(start, "candidate");
  if (best.is_object()) {
    data["best"] = data["best_id"] = Text(best, "id");
    data["best_code"] = Trimmed(Text(best, "code"));
    if (best.contains("speedup") && best["speedup"].is_number()) {
      data["best_speedup"] = Figure(best["speedup"]);
    }
  }
  if (last.is_object() && PortOf(start, "verdict").is_object()) {
    data["last"] = data["last_id"] = Text(last, "id");
    // Shown once: the last candidate often is the best one.
    if (!best.is_object() || Text(best, "code") != Text(last, "code")) {
      data["last_code"] = Trimmed(Text(last, "code"));
    }
    data["last_feedback"] = VerdictText(PortOf(start, "verdict"));
  }
  const json& parent = best.is_object() ? best : last;
  data["parent"] = data["parent_id"] = Text(parent, "id");
  return data;
}

std::string PromptFor(const json& start) {
  const json& with = start.at("with");
  const size_t tokens = with.value("prompt_tokens", kDefaultTokens);
  return FitPrompt(with.at("prompt"), PromptDataOf(start), tokens * kBytesPerToken);
}

}  // namespace kernel_nodes
