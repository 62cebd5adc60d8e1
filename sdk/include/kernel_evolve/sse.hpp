// Server-sent events, as they arrive: any split of the bytes gives the same events. Header-only.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace kernel_evolve::sdk {

// Takes bytes, yields the data of each event. Lines may end with LF, CR or CRLF; comments and blank
// lines between events are skipped; `data:` may lack the space; several data lines of one event are
// joined with LF. `error: TEXT`, which no standard knows but servers send, is data of an event
// called error. Any other field is ignored.
class SseParser {
 public:
  // Calls on_event(event name, data) for each event that `bytes` complete.
  template <typename F>
  void Feed(std::string_view bytes, F&& on_event) {
    while (!bytes.empty()) {
      if (std::exchange(after_cr_, false) && bytes[0] == '\n') {  // the second half of CRLF
        bytes.remove_prefix(1);
        continue;
      }
      const size_t end = bytes.find_first_of("\r\n");
      line_.append(bytes.substr(0, end));
      if (end == std::string_view::npos) return;
      after_cr_ = bytes[end] == '\r';
      bytes.remove_prefix(end + 1);
      EndLine(on_event);
    }
  }

  // The stream has ended: an event without its final blank line is still one.
  template <typename F>
  void Finish(F&& on_event) {
    if (!line_.empty()) EndLine(on_event);
    Dispatch(on_event);
  }

  // Whether a `data:` came without the space that belongs behind it.
  bool lacked_space() const { return lacked_space_; }

  // Bytes held back until more arrive.
  size_t held() const { return line_.size() + data_.size(); }

 private:
  template <typename F>
  void EndLine(F&& on_event) {
    std::string_view line = line_;
    if (std::exchange(first_, false) && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
    TakeLine(line, on_event);
    line_.clear();  // keeps its memory for the next line
  }

  template <typename F>
  void TakeLine(std::string_view line, F&& on_event) {
    if (line.empty()) return Dispatch(on_event);
    const size_t colon = line.find(':');
    if (colon == 0) return;  // a comment
    const std::string_view field = line.substr(0, colon);
    std::string_view value;
    if (colon != std::string_view::npos) value = line.substr(colon + 1);
    const bool spaced = !value.empty() && value[0] == ' ';
    if (spaced) value.remove_prefix(1);
    if (field == "data" && !spaced && !value.empty()) lacked_space_ = true;
    if (field == "error") event_ = "error";
    if (field == "data" || field == "error") {
      if (has_data_) data_ += '\n';
      data_ += value;
      has_data_ = true;
    } else if (field == "event") {
      event_ = value;
    }
  }

  template <typename F>
  void Dispatch(F&& on_event) {
    const std::string event = std::exchange(event_, {});
    const std::string data = std::exchange(data_, {});
    if (std::exchange(has_data_, false)) on_event(event, data);
  }

  std::string line_;
  std::string event_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool first_ = true;
  bool lacked_space_ = false;
};

}  // namespace kernel_evolve::sdk
