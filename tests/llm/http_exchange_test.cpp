// What goes out and what comes back when nothing is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "core/base/json.hpp"
#include "tests/llm/http_fixture.hpp"
#include "tests/loopback/loopback.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class HttpExchange : public ::testing::Test {
 protected:
  Json FetchJson(HttpRequest request) {
    const Answer answer = Fetch(http_, std::move(request));
    EXPECT_EQ(answer.error(), "");
    EXPECT_EQ(answer.head.status, 200);
    return *Json::Parse(answer.body);
  }
  // The values of a request's header, as /echo saw them.
  static std::vector<std::string> Sent(const Json& echo, const std::string& name) {
    std::vector<std::string> values;
    for (const Json& pair : echo["headers"].array()) {
      if (pair.array()[0].string() == name) values.push_back(pair.array()[1].string());
    }
    return values;
  }

  Loopback server_;
  HttpTransport http_;
};

TEST_F(HttpExchange, CarriesTheRequestAndTheAnswer) {
  HttpRequest request = Post(server_.Url("/echo/v1/chat?x=1"), "{\"a\": \"\xC3\xA4\"}");
  request.headers = {{"Content-Type", "application/json"}, {"csb-token", "t 1"}, {"X-Empty", " "}};
  const Json echo = FetchJson(std::move(request));
  EXPECT_EQ(echo["method"].string(), "POST");
  EXPECT_EQ(echo["target"].string(), "/echo/v1/chat?x=1");
  EXPECT_EQ(echo["body"].string(), "{\"a\": \"\xC3\xA4\"}");
  EXPECT_THAT(Sent(echo, "content-type"), ElementsAre("application/json"));
  EXPECT_THAT(Sent(echo, "csb-token"), ElementsAre("t 1"));
  EXPECT_THAT(Sent(echo, "x-empty"), ElementsAre(""));
  EXPECT_THAT(Sent(echo, "expect"), ElementsAre()) << "a wait for 100 Continue";
  EXPECT_THAT(Sent(echo, "user-agent"), ElementsAre("kernel-evolve"));
  EXPECT_THAT(Sent(echo, "accept-encoding").at(0), HasSubstr("gzip"));
}

TEST_F(HttpExchange, SendsOnlyWhatWasGiven) {
  const Json echo = FetchJson(Post(server_.Url("/echo"), "x"));
  EXPECT_THAT(Sent(echo, "content-type"), ElementsAre()) << "not a form's type";
  HttpRequest named = Post(server_.Url("/echo"), "");
  named.headers = {{"User-Agent", "mine"}};
  const Json empty = FetchJson(std::move(named));
  EXPECT_THAT(Sent(empty, "user-agent"), ElementsAre("mine"));
  EXPECT_THAT(Sent(empty, "content-length"), ElementsAre("0"));
  const Json get = FetchJson(Get(server_.Url("/echo")));
  EXPECT_EQ(get["method"].string(), "GET");
  EXPECT_THAT(Sent(get, "content-length"), ElementsAre());
}

TEST_F(HttpExchange, TakesAnyMethod) {
  HttpRequest put = Post(server_.Url("/echo"), "body");
  put.method = "PUT";
  EXPECT_EQ(FetchJson(put)["method"].string(), "PUT");
  put.method = "DELETE";
  put.body.clear();
  EXPECT_EQ(FetchJson(put)["method"].string(), "DELETE");
  put.method = "HEAD";
  const Answer head = Fetch(http_, put);
  EXPECT_EQ(head.error(), "");
  EXPECT_THAT(head.calls, ElementsAre("head", "end"));
}

TEST_F(HttpExchange, AnyStatusIsAWholeExchange) {
  for (const int status : {200, 401, 404, 429, 500, 503}) {
    const Answer answer = Fetch(http_, Get(server_.Url("/status/" + std::to_string(status))));
    EXPECT_EQ(answer.error(), "");
    EXPECT_EQ(answer.head.status, status);
    EXPECT_EQ(answer.body, "{\"status\": " + std::to_string(status) + "}");
    EXPECT_THAT(answer.calls, ElementsAre("head", "bytes", "end"));
  }
}

TEST_F(HttpExchange, HeadersInOrderWithLowerCaseNamesAndNoEarlierHeads) {
  const Answer answer = Fetch(http_, Get(server_.Url("/early")));
  EXPECT_EQ(answer.head.status, 200);
  EXPECT_EQ(answer.body, "final");
  EXPECT_THAT(answer.calls, ElementsAre("head", "bytes", "end"));
  EXPECT_THAT(answer.head.headers,
              ElementsAre(Pair("x-folded", "one two"), Pair("x-two", "1"), Pair("x-two", "2"),
                          Pair("x-empty", ""), Pair("content-type", "application/json"),
                          Pair("content-length", "5")));
}

TEST_F(HttpExchange, SaysHowLongItTook) {
  const Answer answer = Fetch(http_, Get(server_.Url("/slow/50")));
  EXPECT_TRUE(answer.end.connected);
  EXPECT_GE(answer.end.first_byte_s, 0.05);
  EXPECT_GE(answer.end.total_s, answer.end.first_byte_s);
}

TEST_F(HttpExchange, BytesArriveBeforeTheServerSentTheRest) {
  const auto recorder = std::make_shared<Recorder>();
  std::promise<std::string> first;
  bool is_first = true;
  recorder->on_bytes = [&](std::string_view bytes) {
    if (std::exchange(is_first, false)) first.set_value(std::string(bytes));
  };
  http_.Send(Get(server_.Url("/gate/second")), recorder);
  EXPECT_EQ(Await(first.get_future()), "first");
  Fetch(http_, Get(server_.Url("/control/open/second")));
  EXPECT_EQ(recorder->Wait().body, "firstsecond");
}

TEST_F(HttpExchange, ChunksCutAnywhereAndTrailersMakeTheSameBody) {
  std::string body;
  for (int i = 0; i < 500; ++i) body += std::to_string(i) + "\r\n";
  for (const int size : {1, 7, 1000}) {
    const Answer answer = Fetch(http_, Post(server_.Url("/chunked/" + std::to_string(size)), body));
    EXPECT_EQ(answer.body, body);
    EXPECT_THAT(answer.calls, ElementsAre("head", "bytes", "end")) << "a trailer is no head";
  }
}

TEST_F(HttpExchange, UndoesCompression) {
  const Answer answer = Fetch(http_, Get(server_.Url("/gzip")));
  EXPECT_EQ(answer.body.size(), 9000U);
  EXPECT_EQ(answer.body.substr(0, 18), "squeezed squeezed ");
}

TEST_F(HttpExchange, SendsALargeBodyWhole) {
  // Above 1 MiB libcurl would ask first, and wait a second for the permission.
  const std::string body(1'200'000, 'b');
  EXPECT_EQ(FetchJson(Post(server_.Url("/echo"), body))["body"].string().size(), body.size());
}

TEST_F(HttpExchange, UsesAConnectionAgain) {
  for (int i = 0; i < 5; ++i) FetchJson(Get(server_.Url("/echo")));
  EXPECT_EQ(FetchJson(Get(server_.Url("/control/connections")))["connections"].integer(), 1);
}

TEST_F(HttpExchange, HoldsManyInFlightOnOneThread) {
  constexpr int kMany = 200;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < kMany; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    http_.Send(Get(server_.Url("/gate/all")), recorders.back());
  }
  // Every one of them has reached the server before any may end.
  FetchJson(Get(server_.Url("/control/hit/" + std::to_string(kMany) + "/gate")));
  FetchJson(Get(server_.Url("/control/open/all")));
  for (const auto& recorder : recorders) {
    const Answer answer = recorder->Wait();
    EXPECT_EQ(answer.error(), "");
    EXPECT_EQ(answer.body, "firstsecond");
  }
}

TEST_F(HttpExchange, SendsFromManyThreads) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        good += Fetch(http_, Post(server_.Url("/echo"), "x")).head.status == 200 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 40);
}

TEST_F(HttpExchange, ReadsARecordedAnswerInAnyPieces) {
  // What the other tests feed to the codecs.
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "http_wire_case";
  std::filesystem::create_directories(folder / "some" / "case");
  const std::string body = "data: {\"x\": 1}\n\ndata: [DONE]\n\n";
  FILE* file = std::fopen((folder / "some" / "case" / "response.http").c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fputs(("HTTP/1.1 429 Slow\nRetry-After: 3\n\n" + body).c_str(), file);
  std::fclose(file);
  Loopback wire({"--wire", folder.string()});
  for (const char* cut : {"", "?cut=1", "?cut=7"}) {
    const Answer answer = Fetch(http_, Post(wire.Url(std::string("/wire/some/case/v1") + cut), ""));
    EXPECT_EQ(answer.head.status, 429);
    EXPECT_EQ(answer.head.headers.at(0),
              std::make_pair(std::string("retry-after"), std::string("3")));
    EXPECT_EQ(answer.body, body);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(HttpExchange, AStormPassesAndSaysWhenToComeBack) {
  const std::string url = server_.Url("/storm/2/503/a?retry-after=7&retry-after-ms=20");
  for (int i = 0; i < 2; ++i) {
    const Answer failed = Fetch(http_, Post(url, ""));
    EXPECT_EQ(failed.head.status, 503);
    EXPECT_THAT(failed.head.headers,
                ::testing::IsSupersetOf({Pair("retry-after", "7"), Pair("retry-after-ms", "20")}));
  }
  EXPECT_EQ(Fetch(http_, Post(url, "")).head.status, 200);
}

}  // namespace
}  // namespace kernel_evolve::testing
