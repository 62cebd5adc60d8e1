// The messages of a long conversation, kept within a budget: what was said long ago is shortened,
// oldest first, while the task, the best candidate and the last turn stay whole.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace kernel_nodes {

// A value type. The same calls give the same messages.
class Transcript {
 public:
  Transcript() = default;
  // `task` is the first message of the user; it is never shortened.
  explicit Transcript(const std::string& task);

  void Say(const nlohmann::json& response);  // a canonical response of the model
  void Ask(const std::string& text);         // a message of the user
  void Answer(const nlohmann::json& call, const std::string& text);  // a tool's result
  // Adds a line to the last message, a tool's or the user's.
  void Note(const std::string& line);

  // When the messages are larger than `bytes`: shortens what is older than the model's last
  // message until they are at most 60% of that (so that not every turn changes what was sent
  // before), and appends `standing` (what must not be lost: the best candidate) to the first
  // message, in place of what was appended there before.
  void Shorten(size_t bytes, const std::string& standing);

  const nlohmann::json& messages() const { return messages_; }
  size_t bytes() const;

 private:
  std::string task_;
  nlohmann::json messages_ = nlohmann::json::array();
};

}  // namespace kernel_nodes
