#include "inspect.hpp"

#include <kernel_evolve/plugin.hpp>
#include <set>

#include "conversation.hpp"
#include "records.hpp"

namespace kernel_nodes {
namespace {

using nlohmann::json;

// "prompts/inspect/hardware.md" is the topic "hardware".
std::string TopicOf(const json& page) {
  const std::string path = Text(page, "path");
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.rfind('.'));
}

std::string TitleOf(const json& page) {
  const std::string text = Text(page, "text");
  const size_t begin = text.find_first_not_of("# ");
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void CheckPages(const json& pages) {
  std::set<std::string> topics;
  for (const json& page : pages) {
    if (!topics.insert(TopicOf(page)).second) {
      throw kernel_evolve::sdk::PluginError(
          "validation", "with.inspect: two pages are called '" + TopicOf(page) + "'; rename one");
    }
    if (TitleOf(page).empty()) {
      throw kernel_evolve::sdk::PluginError(
          "validation",
          "with.inspect: " + Text(page, "path") + " has no first line that says what it holds");
    }
  }
}

json InspectTool(const json& pages) {
  json topics = json::array();
  std::string list = "What to look up.";
  for (const json& page : pages) {
    topics.push_back(TopicOf(page));
    list += "\n" + TopicOf(page) + ": " + TitleOf(page);
  }
  return Tool("inspect", "Looks up facts about the hardware, the language and the evaluator.",
              {{"topic", {{"type", "string"}, {"enum", topics}, {"description", list}}}});
}

std::string InspectAnswer(const json& pages, const json& arguments) {
  const std::string topic = Text(arguments, "topic");
  std::string known;
  for (const json& page : pages) {
    if (TopicOf(page) == topic) return Text(page, "text");
    known += (known.empty() ? "" : ", ") + TopicOf(page);
  }
  return "there is no topic '" + topic + "'; the topics are " + known;
}

}  // namespace kernel_nodes
