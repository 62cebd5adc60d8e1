// Search-and-replace edits that an author proposes: exact, unique, all or nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kernel_nodes {

// The edited text, or why nothing was changed (a sentence that goes back to the model).
struct Edited {
  std::string text;
  std::string complaint;  // empty on success
};

// Applies `edits`, an array of {"search", "replace"}, in order. Each search text must be non-empty
// and occur exactly once in the text as the edits before it left it.
Edited ApplyEdits(const std::string& original, const nlohmann::json& edits);

}  // namespace kernel_nodes
