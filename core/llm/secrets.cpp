#include "core/llm/secrets.hpp"

#include <algorithm>
#include <utility>

namespace kernel_evolve {

Secrets::Secrets(std::map<std::string, std::string> values) : values_(std::move(values)) {
  for (const auto& [name, value] : values_) longest_first_.push_back(name);
  std::stable_sort(longest_first_.begin(), longest_first_.end(),
                   [this](const std::string& a, const std::string& b) {
                     return values_.at(a).size() > values_.at(b).size();
                   });
}

Result<std::string> Secrets::Expand(const std::string& text) const {
  static constexpr std::string_view kOpen = "${env:";
  std::string out;
  size_t from = 0;
  for (size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, from)) {
    const size_t end = text.find('}', at);
    if (end == std::string::npos) break;
    const std::string name = text.substr(at + kOpen.size(), end - at - kOpen.size());
    const auto found = values_.find(name);
    if (found == values_.end()) {
      return Failed(ErrorClass::kAuth, "the environment variable " + name +
                                           " is not set; the profile takes a secret from it");
    }
    out.append(text, from, at - from).append(found->second);
    from = end + 1;
  }
  return out.append(text, from, std::string::npos);
}

std::string Secrets::StrikeText(std::string text, size_t at_least) const {
  for (const std::string& name : longest_first_) {
    const std::string& value = values_.at(name);
    if (value.empty() || value.size() < at_least) continue;
    const std::string mark = "[" + name + "]";
    for (size_t at = text.find(value); at != std::string::npos;
         at = text.find(value, at + mark.size())) {
      text.replace(at, value.size(), mark);
    }
  }
  return text;
}

Json Secrets::Strike(const Json& value, size_t at_least) const {
  if (values_.empty()) return value;
  if (value.is_string()) return StrikeText(value.string(), at_least);
  if (value.is_array()) {
    Json out = Json::Arr();
    for (const Json& item : value.array()) out.push_back(Strike(item, at_least));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::Obj();
  for (const auto& [key, member] : value.object()) {
    out[StrikeText(key, at_least)] = Strike(member, at_least);
  }
  return out;
}

}  // namespace kernel_evolve
