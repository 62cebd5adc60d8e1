// Sends the same request many times at once, for checks with servers that are not part of the
// tests:
//   http_burst URL CA_BUNDLE COUNT < BODY
// Prints a line for each answer: {"error", "status", "body", "pieces"}.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "tests/llm/http_fixture.hpp"

namespace kernel_evolve::testing {
namespace {

struct Flight {
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  int64_t pieces = 0;  // arrivals
};

void Burst(const std::string& url, const std::string& ca_bundle, int count) {
  HttpRequest request = Post(
      url, std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()));
  request.options.ca_bundle = ca_bundle;
  std::vector<Flight> flights(static_cast<size_t>(count));
  HttpTransport http;
  for (Flight& flight : flights) {
    flight.recorder->on_bytes = [&flight](std::string_view) { ++flight.pieces; };
    http.Send(request, flight.recorder);
  }
  for (const Flight& flight : flights) {
    const Answer answer = flight.recorder->Wait();
    const Json line = Json::Obj({{"error", answer.error()},
                                 {"status", answer.head.status},
                                 {"body", answer.body},
                                 {"pieces", flight.pieces}});
    std::printf("%s\n", line.Dump().c_str());
  }
}

}  // namespace
}  // namespace kernel_evolve::testing

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: http_burst URL CA_BUNDLE COUNT < BODY\n");
    return 2;
  }
  kernel_evolve::testing::Burst(argv[1], argv[2], std::atoi(argv[3]));
  return 0;
}
