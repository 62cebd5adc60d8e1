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
    for (const char c : bytes) {
      if (c == '\n' && after_cr_) {  // the second half of CRLF
        after_cr_ = false;
        continue;
      }
      after_cr_ = c == '\r';
      if (c != '\n' && c != '\r') {
        line_.push_back(c);
        continue;
      }
      EndLine(on_event);
    }
  }

  // The stream has ended: an event without its final blank line is still one.
  template <typename F>
  void Finish(F&& on_event) {
    if (!line_.empty()) EndLine(on_event);
    Dispatch(on_event);
  }

  // Bytes held back until more arrive.
  size_t held() const { return line_.size() + data_.size(); }

 private:
  template <typename F>
  void EndLine(F&& on_event) {
    std::string line = std::exchange(line_, {});
    if (first_ && line.rfind("\xEF\xBB\xBF", 0) == 0) line.erase(0, 3);
    first_ = false;
    if (line.empty()) return Dispatch(on_event);
    const size_t colon = line.find(':');
    if (colon == 0) return;  // a comment
    const std::string field = line.substr(0, colon);
    std::string value = colon == std::string::npos ? std::string() : line.substr(colon + 1);
    if (!value.empty() && value[0] == ' ') value.erase(0, 1);
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
};

}  // namespace kernel_evolve::sdk
