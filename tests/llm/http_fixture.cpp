#include "tests/llm/http_fixture.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace kernel_evolve::testing {

void Recorder::OnHead(const HttpHead& head) {
  answer_.calls.push_back("head");
  answer_.head = head;
  if (on_head) on_head(head);
}

void Recorder::OnBytes(std::string_view bytes) {
  if (answer_.calls.empty() || answer_.calls.back() != "bytes") answer_.calls.push_back("bytes");
  answer_.body += bytes;
  if (on_bytes) on_bytes(bytes);
}

void Recorder::OnEnd(const HttpEnd& end) {
  answer_.calls.push_back("end");
  answer_.end = end;
  if (on_end) on_end(end);
  ended_.set_value(answer_);  // a second end throws, and ends the test program
}

Answer Recorder::Wait() { return Await(ended_.get_future()); }

HttpRequest Get(const std::string& url) {
  HttpRequest request;
  request.method = "GET";
  request.url = url;
  request.options.proxy = "none";
  return request;
}

HttpRequest Post(const std::string& url, const std::string& body) {
  HttpRequest request = Get(url);
  request.method = "POST";
  request.body = body;
  return request;
}

Answer Fetch(HttpTransport& transport, HttpRequest request) {
  const auto recorder = std::make_shared<Recorder>();
  transport.Send(std::move(request), recorder);
  return recorder->Wait();
}

}  // namespace kernel_evolve::testing
