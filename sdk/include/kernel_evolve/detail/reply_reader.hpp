// Takes a service's answer apart into JSON values, whatever form it came in: a stream of events, or
// one whole body. Part of the codec helpers; the wire forms derive from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernel_evolve/codec.hpp"
#include "kernel_evolve/detail/chat_text.hpp"
#include "kernel_evolve/detail/quirks.hpp"
#include "kernel_evolve/detail/service_error.hpp"
#include "kernel_evolve/sse.hpp"

namespace kernel_evolve::sdk::detail {

// A count of tokens; 0 for what is none.
inline int64_t TokensOf(const json& value) {
  const double count = value.is_number() ? value.get<double>() : 0;
  return count > 0 && count < 1e15 ? static_cast<int64_t>(count) : 0;
}

class ReplyReader {
 public:
  // `who` names the endpoint in sentences.
  explicit ReplyReader(std::string who) : who_(std::move(who)) {}
  virtual ~ReplyReader() = default;
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  void Begin(const ResponseHead& head) { head_ = head; }

  void Feed(std::string_view bytes, Events& events) {
    if (form_ != Form::kUnknown) return Take(bytes, events);
    start_.append(bytes);
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (!begun_) {
      if (start_.size() < kByteOrderMark.size() &&
          kByteOrderMark.substr(0, start_.size()) == start_) {
        return;  // the rest of it may follow
      }
      if (start_.rfind(kByteOrderMark, 0) == 0) {
        quirks_.Note("the answer begins with a byte order mark");
        start_.erase(0, kByteOrderMark.size());
      }
      begun_ = true;
    }
    // Blanks before the answer are dropped at once: there may be many, each in a piece of its own.
    size_t blanks = 0;
    while (blanks < start_.size() && static_cast<unsigned char>(start_[blanks]) <= ' ') ++blanks;
    start_.erase(0, blanks);
    if (start_.empty()) return;
    // The first byte tells: a content type is often wrong.
    const char first = start_[0];
    const bool whole = first == '{' || first == '[' || first == '<' || head_.status >= 300;
    form_ = whole ? Form::kWhole : Form::kStream;
    Take(std::exchange(start_, {}), events);
  }

 protected:
  // One value: an event's data, or the whole body.
  virtual void OnValue(const json& value, Events& events) = 0;
  // Whether any part of an answer has come.
  virtual bool Answered() const = 0;
  // Whether the answer has said how it ended.
  virtual bool Ended() const = 0;

  // The body has ended. Throws ServiceError for a refusal, an error inside the stream, an answer
  // that breaks off or is none.
  void End(bool complete) {
    Events unused;
    if (form_ == Form::kStream) {
      // Without its blank line, the last event may be whole or cut.
      parser_.Finish([&](const std::string& name, const std::string& data) {
        if (json::accept(data) || TrimBlank(data) == "[DONE]") OnEvent(name, data, unused);
      });
    } else {
      OnWhole(complete, unused);
    }
    if (error_) throw ServiceError(*error_);
    if (form_ == Form::kStream && !done_ && !Ended()) {
      if (complete && !OpensAsStream()) throw NoJson(opening_);
      throw BrokenOff();
    }
    if (!Answered()) {
      const std::string_view body = TrimBlank(body_);
      throw ServiceError("invalid_output",
                         who_ + " sent nothing that is an answer" +
                             (body.empty() ? std::string() : ": " + Excerpt(body)));
    }
    quirks_.NoteIf(parser_.lacked_space(), "events are written data: without a space");
    quirks_.NoteIf(form_ == Form::kStream && !done_, "the stream ends without its last event");
  }

  // The stream's last event was seen; what follows it is not read.
  void Done(Events& events) {
    done_ = true;
    events.End();
  }

  // The service failed, inside an answer that began well.
  void Fail(const json& body) { error_ = Classify(StatusIn(body), ReadWords(body), who_); }

  const std::string& who() const { return who_; }
  // Whether the answer comes as events, rather than as one body.
  bool streamed() const { return form_ == Form::kStream; }
  Quirks& quirks() { return quirks_; }

 private:
  enum class Form { kUnknown, kStream, kWhole };

  ServiceError BrokenOff() const {
    return {"communication", who_ + " broke off in the middle of its answer"};
  }

  ServiceError NoJson(const std::string& words) const {
    return {"invalid_output", who_ + " answered " + std::to_string(head_.status) +
                                  " with what is no JSON: " + Excerpt(words)};
  }

  // Whether the body began like a stream of events; plain words in their place are no answer.
  bool OpensAsStream() const {
    const std::string_view text = TrimBlank(opening_);
    for (const std::string_view field : {":", "data:", "event:", "id:", "retry:", "error:"}) {
      if (text.substr(0, field.size()) == field) return true;
    }
    return false;
  }

  void Take(std::string_view bytes, Events& events) {
    if (form_ == Form::kWhole) {
      body_.append(bytes);
      return;
    }
    opening_.append(bytes.substr(0, 2 * kLongestExcerpt - opening_.size()));
    parser_.Feed(bytes, [&](const std::string& name, const std::string& data) {
      OnEvent(name, data, events);
    });
  }

  void OnWhole(bool complete, Events& events) {
    json body = ReadJson(body_);
    if (body.is_array() && body.size() == 1) body = json(body[0]);  // Gemini wraps its errors
    if (head_.status >= 300 && head_.status < 400) {
      throw ServiceError("validation",
                         who_ + " redirects to " + head_.Header("location") +
                             "; write that address as base_url in the profile",
                         false);
    }
    if (head_.status >= 400) {
      ServiceWords words = ReadWords(body);
      if (body.is_discarded()) words.message = PageWords();
      throw ServiceError(Classify(head_.status, words, who_));
    }
    const std::string_view text = TrimBlank(body_);
    if (text.empty()) throw ServiceError("communication", who_ + " answered with an empty body");
    if (body.is_discarded()) {
      const bool cut = text[0] == '{' && ValueLength(text) == 0;
      if (!complete || cut) throw BrokenOff();
      throw NoJson(PageWords());
    }
    if (body.is_object()) OnValue(body, events);
  }

  // A proxy's page, without its tags.
  std::string PageWords() const {
    std::string out;
    bool tag = false;
    for (const char c : body_) {
      if (c == '<') tag = true;
      if (!tag) out.push_back(c);
      if (c != '>') continue;
      tag = false;
      out.push_back(' ');
    }
    return TrimBlank(out).empty() ? "an empty body" : out;
  }

  void OnEvent(const std::string& name, const std::string& data, Events& events) {
    if (done_ || error_) return;
    const std::string_view text = TrimBlank(data);
    if (text == "[DONE]") return Done(events);
    if (text.empty()) return;
    const json value = ReadJson(text);
    if (name == "error") {
      return Fail(value.is_object() ? value : json{{"message", std::string(text)}});
    }
    if (!value.is_object()) {
      error_ = ServiceError("invalid_output",
                            who_ + " sent an event that is no JSON object: " + Excerpt(text));
      return;
    }
    OnValue(value, events);
  }

  const std::string who_;
  ResponseHead head_;
  Form form_ = Form::kUnknown;
  bool begun_ = false;   // a byte order mark is behind us, or there is none
  std::string start_;    // until the form is known
  std::string opening_;  // of a stream, its first bytes
  std::string body_;     // of a whole answer
  SseParser parser_;
  Quirks quirks_;
  bool done_ = false;
  std::optional<ServiceError> error_;
};

}  // namespace kernel_evolve::sdk::detail
