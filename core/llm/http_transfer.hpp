// One exchange: sets up a libcurl handle for it, passes on what arrives, says how it ended.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/llm/curl_library.hpp"
#include "core/llm/http.hpp"

namespace kernel_evolve {

// Belongs to the transport's thread, once it has been made.
class HttpTransfer {
 public:
  using Clock = std::chrono::steady_clock;

  HttpTransfer(int64_t id, HttpRequest request, std::shared_ptr<HttpHandler> handler);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  int64_t id() const { return id_; }
  CURL* easy() const { return easy_; }
  const std::shared_ptr<HttpHandler>& handler() const { return handler_; }

  // Sets `easy` (fresh or reset; the caller's) up. An error: the request is refused, and nothing of
  // it is sent. The handle points here until it is reset or cleaned up.
  Status Prepare(const CurlLibrary& curl, CURL* easy);

  // When it will have been idle for too long, as things stand.
  Clock::time_point IdleDeadline() const;
  double idle_timeout_s() const { return request_.options.idle_timeout_s; }

  // The handler hears nothing more but the end.
  void Abandon() { abandoned_ = true; }

  // How it ended. While the handle is still set up for it.
  HttpEnd EndedBy(CURLcode code) const;
  HttpEnd EndedIdle() const;
  HttpEnd EndedCancelled() const;
  // A request that was never prepared, or whose preparation failed.
  HttpEnd EndedUnsent(Error error) const;

 private:
  static size_t HeaderCallback(char* data, size_t size, size_t count, void* self);
  static size_t BodyCallback(char* data, size_t size, size_t count, void* self);

  Status ReadAddress();
  Status ReadProxy();
  Status CheckFiles() const;
  Status AddHeaders();
  Status SetVersion();
  void SetMethod();
  void SetTls();
  bool HasSystemBundle() const;
  template <typename Value>
  void Set(CURLoption option, Value value);
  bool TakeHeaderLine(std::string_view line);
  HttpEnd Times() const;
  double Elapsed() const;
  double ConnectedAfter() const;  // seconds from the start to the sending; 0: not yet

  const int64_t id_;
  HttpRequest request_;
  std::shared_ptr<HttpHandler> handler_;
  const Clock::time_point sent_at_;  // Send() was called

  const CurlLibrary* curl_ = nullptr;
  CURL* easy_ = nullptr;  // the loop's
  curl_slist* headers_ = nullptr;
  CURLcode refused_ = CURLE_OK;  // the first option that libcurl did not take
  char detail_[CURL_ERROR_SIZE] = "";

  std::string host_ = "the endpoint";  // "name:port" once known
  std::string proxy_;                  // the same for the options' proxy
  bool https_ = false;

  enum class Limit { kNone, kBody, kHead };
  HttpHead head_;
  bool head_done_ = false;
  size_t head_bytes_ = 0;
  size_t body_bytes_ = 0;
  Limit exceeded_ = Limit::kNone;
  bool abandoned_ = false;
  Clock::time_point started_at_;     // Prepare() was called
  Clock::time_point arrived_at_;     // the last bytes; the epoch: none
  Clock::time_point first_byte_at_;  // the epoch: none
};

}  // namespace kernel_evolve
