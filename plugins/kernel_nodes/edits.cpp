#include "edits.hpp"

namespace kernel_nodes {
namespace {

size_t CountOccurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  // Overlapping ones count too: either of them could be meant.
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

bool IsEdit(const nlohmann::json& edit) {
  return edit.is_object() && edit.contains("search") && edit["search"].is_string() &&
         edit.contains("replace") && edit["replace"].is_string();
}

}  // namespace

Edited ApplyEdits(const std::string& original, const nlohmann::json& edits) {
  if (!edits.is_array() || edits.empty()) {
    return {"", "edit_kernel needs a non-empty array `edits` of {search, replace}"};
  }
  std::string text = original;
  for (size_t i = 0; i < edits.size(); ++i) {
    const std::string which =
        "edit " + std::to_string(i + 1) + " of " + std::to_string(edits.size());
    if (!IsEdit(edits[i])) return {"", which + " lacks a string `search` or `replace`"};
    const std::string search = edits[i]["search"];
    if (search.empty()) return {"", which + " has an empty `search`"};
    const size_t count = CountOccurrences(text, search);
    if (count != 1) {
      return {"", which + ": its `search` occurs " +
                      (count == 0 ? std::string("nowhere") : std::to_string(count) + " times") +
                      " in the candidate; it must occur exactly once, and nothing was changed"};
    }
    text.replace(text.find(search), search.size(), edits[i]["replace"].get<std::string>());
  }
  if (text == original) return {"", "the edits change nothing"};
  return {text, ""};
}

}  // namespace kernel_nodes
