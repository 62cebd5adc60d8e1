// The folder: open requests and answers in it, settled ones in its `done/`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace provider_mailbox {

// What was found under an answer's name.
struct Found {
  std::string extension;  // ".json" or ".py"
  std::string text;
};

// One request's files, by its number. Not synchronised; several processes may use one folder.
// Throws PluginError (unavailable) when the folder can't be used.
class Box {
 public:
  explicit Box(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Writes the request under the next free number, or takes the number of one with the same text
  // that was never settled (of a run that was cut short). `letter` makes the text for people.
  template <typename Letter>
  void Put(const std::string& request, const Letter& letter) {
    if (!Reserve(request)) Create(request);
    WriteWhole(File(".request.md"), letter(number_));
  }

  // An answer, complete or not; nothing when there is none or it is empty.
  std::optional<Found> Look() const;
  // Renames an answer that can't be used, and says why.
  void Refuse(const Found& found, const std::string& problem);
  // Whether the request still lies there, not settled.
  bool IsOpen() const;
  // Moves everything of this request to done/.
  void Settle();

  const std::string& number() const { return number_; }  // "0001"
  std::filesystem::path File(const std::string& suffix) const;

 private:
  bool Reserve(const std::string& request);
  void Create(const std::string& request);
  void WriteWhole(const std::filesystem::path& file, const std::string& text) const;

  std::filesystem::path folder_;
  std::string number_;
  int refused_ = 0;
};

}  // namespace provider_mailbox
