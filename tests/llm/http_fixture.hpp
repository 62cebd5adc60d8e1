// One exchange as a value, for tests that speak to a loopback server.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/llm/http.hpp"

namespace kernel_evolve::testing {

struct Answer {
  HttpHead head;  // status 0: none came
  std::string body;
  HttpEnd end;
  std::vector<std::string> calls;  // "head", "bytes" (several in a row are one), "end"

  std::string error() const { return end.error ? end.error->message : ""; }
  std::string error_class() const {
    return end.error ? ErrorClassName(end.error->error_class) : "none";
  }
};

// Keeps what it is told. The hooks run on the transport's thread.
class Recorder : public HttpHandler {
 public:
  std::function<void(const HttpHead&)> on_head;
  std::function<void(std::string_view)> on_bytes;
  std::function<void(const HttpEnd&)> on_end;

  void OnHead(const HttpHead& head) override;
  void OnBytes(std::string_view bytes) override;
  void OnEnd(const HttpEnd& end) override;

  // Waits for the end; throws when it does not come within a minute. Once.
  Answer Wait();

 private:
  Answer answer_;
  std::promise<Answer> ended_;
};

// Without a proxy, whatever the environment says.
HttpRequest Get(const std::string& url);
HttpRequest Post(const std::string& url, const std::string& body);

Answer Fetch(HttpTransport& transport, HttpRequest request);

// The value once it is there; throws after a minute.
template <typename Value>
Value Await(std::future<Value> future) {
  if (future.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
    throw std::runtime_error("nothing came within a minute");
  }
  return future.get();
}

}  // namespace kernel_evolve::testing
