// Whatever goes wrong ends in one error class and one sentence that names the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "tests/llm/http_fixture.hpp"
#include "tests/loopback/loopback.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpFault : public ::testing::Test {
 protected:
  std::string Host() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  int64_t Count(const Loopback& server, const std::string& what) {
    const Answer answer = Fetch(http_, Get(server.Url("/control/" + what)));
    return (*Json::Parse(answer.body))["count"].integer();
  }
  // Fetches until the head came in time: on a machine under load a short limit may end the request
  // before the server has begun.
  Answer FetchBegun(const HttpRequest& request) {
    Answer answer = Fetch(http_, request);
    for (int i = 0; i < 50 && answer.head.status == 0; ++i) answer = Fetch(http_, request);
    return answer;
  }
  // Returns once the server has seen the connection of a `path` close.
  void WaitForClose(const std::string& path) { Count(server_, "gone/1/" + path); }

  Loopback server_;
  HttpTransport http_;
};

TEST_F(HttpFault, RefusedConnection) {
  const DeadPort dead;
  const std::string host = "127.0.0.1:" + std::to_string(dead.port());
  const Answer answer = Fetch(http_, Get("http://" + host + "/v1?key=secret"));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_EQ(answer.error(), "cannot connect to " + host +
                                ": connection refused; check that the server runs and that "
                                "base_url in the profile is right");
  EXPECT_FALSE(answer.end.connected);
  EXPECT_EQ(answer.end.first_byte_s, 0);
  EXPECT_THAT(answer.calls, ElementsAre("end"));
}

TEST_F(HttpFault, HostThatIsNotThere) {
  // A label longer than 63 characters is no name: no resolver is asked.
  const std::string name = std::string(64, 'a') + ".test";
  const Answer answer = Fetch(http_, Get("http://user:word@" + name + "/v1?key=secret"));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr("there is no host " + name + ":80"),
                                    Not(HasSubstr("word")), Not(HasSubstr("secret"))));
}

TEST_F(HttpFault, AddressesThatAreNone) {
  for (const char* url : {"", "not an address", "ftp://host/x", "file:///etc/passwd", "http://",
                          "http://user:word@/v1", "/v1/chat", "http://ho st/", "http://h:99999/"}) {
    const Answer answer = Fetch(http_, Get(url));
    EXPECT_EQ(answer.error_class(), "validation") << url;
    EXPECT_THAT(answer.error(), AllOf(HasSubstr("base_url"), Not(HasSubstr("word")))) << url;
  }
}

TEST_F(HttpFault, SilentServer) {
  HttpRequest request = Get(server_.Url("/silent"));
  request.options.idle_timeout_s = 0.2;
  const Answer answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "timeout");
  EXPECT_EQ(answer.error(),
            Host() + " sent nothing for 0.2 s; raise limits.idle_timeout in the profile");
  EXPECT_TRUE(answer.end.connected);
  EXPECT_GE(answer.end.total_s, 0.2);
  EXPECT_LT(answer.end.total_s, 30) << "that is not the default of 120 s";
  WaitForClose("silent");
}

TEST_F(HttpFault, StreamThatStalls) {
  HttpRequest request = Get(server_.Url("/stall"));
  request.options.idle_timeout_s = 0.2;
  const Answer answer = FetchBegun(request);
  EXPECT_EQ(answer.error_class(), "timeout");
  EXPECT_THAT(answer.error(), HasSubstr("limits.idle_timeout"));
  EXPECT_EQ(answer.body, "and then");
  EXPECT_GT(answer.end.first_byte_s, 0);
  WaitForClose("stall");
}

TEST_F(HttpFault, ExchangeThatTakesTooLong) {
  HttpRequest request = Get(server_.Url("/endless/20"));
  request.options.timeout_s = 0.3;
  request.options.idle_timeout_s = 60;
  const Answer answer = FetchBegun(request);
  EXPECT_EQ(answer.error_class(), "timeout");
  EXPECT_EQ(answer.error(), Host() +
                                " did not end its answer within 0.3 s; raise limits.timeout in "
                                "the profile");
  EXPECT_THAT(answer.body, HasSubstr("data: more"));
  WaitForClose("endless");
}

TEST_F(HttpFault, BytesThatKeepComingAreNotIdle) {
  HttpRequest request = Get(server_.Url("/endless/20"));
  request.options.timeout_s = 1.5;
  request.options.idle_timeout_s = 0.7;
  const auto recorder = std::make_shared<Recorder>();
  std::vector<std::chrono::steady_clock::time_point> times = {std::chrono::steady_clock::now()};
  const auto note = [&times](const auto&) { times.push_back(std::chrono::steady_clock::now()); };
  recorder->on_bytes = note;
  recorder->on_end = note;
  http_.Send(request, recorder);
  const Answer answer = recorder->Wait();
  bool paused = false;  // a machine under load may really have paused for so long
  for (size_t i = 1; i < times.size(); ++i) {
    paused = paused || times[i] - times[i - 1] >= std::chrono::milliseconds(700);
  }
  EXPECT_THAT(answer.error(), HasSubstr(paused ? "limits." : "limits.timeout"));
}

TEST_F(HttpFault, StreamWithoutEnd) {
  HttpRequest request = Get(server_.Url("/endless"));
  request.options.max_response_bytes = 100'000;
  const Answer answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "invalid_output");
  EXPECT_EQ(answer.error(), "the answer of " + Host() +
                                " is larger than 100000 bytes; raise limits.max_response in the "
                                "profile");
  EXPECT_LE(answer.body.size(), 100'000U);
  EXPECT_GT(answer.body.size(), 80'000U);
  WaitForClose("endless");
}

TEST_F(HttpFault, BodyOf100Megabytes) {
  for (const char* path : {"/big/100", "/big/100?chunked=1"}) {
    const Answer answer = Fetch(http_, Get(server_.Url(path)));
    EXPECT_EQ(answer.error_class(), "invalid_output") << path;
    EXPECT_THAT(answer.error(), HasSubstr("larger than 64 MiB")) << path;
    EXPECT_LE(answer.body.size(), size_t{64} << 20U) << path;
  }
  HttpRequest request = Get(server_.Url("/big/2"));
  request.options.max_response_bytes = size_t{2} << 20U;
  EXPECT_EQ(Fetch(http_, request).error(), "") << "exactly the limit is allowed";
}

TEST_F(HttpFault, SmallBodyThatUnpacksToALargeOne) {
  HttpRequest request = Get(server_.Url("/gzip/8"));  // 8 KB on the wire
  request.options.max_response_bytes = size_t{1} << 20U;
  const Answer answer = Fetch(http_, request);
  EXPECT_THAT(answer.error(), HasSubstr("larger than 1 MiB"));
  EXPECT_LE(answer.body.size(), size_t{1} << 20U);
}

TEST_F(HttpFault, HeadWithoutEnd) {
  const Answer answer = Fetch(http_, Get(server_.Url("/headers")));
  EXPECT_NE(answer.error_class(), "none");
  EXPECT_THAT(answer.error(), HasSubstr(Host()));
  EXPECT_THAT(answer.calls, ElementsAre("end"));
}

TEST_F(HttpFault, RedirectsAreAnswersAndKeysStayHome) {
  const Loopback other;
  for (const int code : {301, 302, 303, 307, 308}) {
    HttpRequest request =
        Post(server_.Url("/redirect/" + std::to_string(code) + "?to=" + other.Url("/echo/stolen")),
             "prompt");
    request.headers = {{"Authorization", "Bearer sk-1"}, {"csb-token", "t"}};
    const Answer answer = Fetch(http_, request);
    EXPECT_EQ(answer.error(), "");
    EXPECT_EQ(answer.head.status, code);
    EXPECT_EQ(answer.body, "{\"moved\": true}");
  }
  Fetch(http_, Post(server_.Url("/redirect/302"), ""));
  EXPECT_EQ(Count(server_, "count/redirect"), 6) << "the counter counts";
  EXPECT_EQ(Count(server_, "count/count"), 0) << "nor to another path of the same host";
  EXPECT_EQ(Count(other, "count/echo"), 0);
}

TEST_F(HttpFault, BodyThatIsCutShort) {
  for (const char* path : {"/cut", "/cut?chunked=1"}) {
    const Answer answer = Fetch(http_, Get(server_.Url(path)));
    EXPECT_EQ(answer.error_class(), "communication") << path;
    EXPECT_THAT(answer.error(),
                HasSubstr(Host() + " closed the connection after 100 bytes of its answer"));
    EXPECT_EQ(answer.body.size(), 100U);
    EXPECT_THAT(answer.calls, ElementsAre("head", "bytes", "end"));
  }
}

TEST_F(HttpFault, ConnectionThatIsReset) {
  for (const char* path : {"/reset", "/hangup"}) {
    const Answer answer = Fetch(http_, Get(server_.Url(path)));
    EXPECT_EQ(answer.error_class(), "communication") << path;
    EXPECT_THAT(answer.error(),
                HasSubstr(Host() + " closed the connection before its answer began"));
    EXPECT_TRUE(answer.end.connected);
  }
  const auto recorder = std::make_shared<Recorder>();
  std::promise<void> began;
  recorder->on_bytes = [&](std::string_view) { began.set_value(); };
  http_.Send(Get(server_.Url("/reset/body")), recorder);
  Await(began.get_future());
  Fetch(http_, Get(server_.Url("/control/open/reset")));
  EXPECT_THAT(recorder->Wait().error(), HasSubstr("after 100 bytes of its answer"));
}

TEST_F(HttpFault, AnswerThatIsNotHttp) {
  const Answer answer = Fetch(http_, Get(server_.Url("/garbage")));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), HasSubstr(Host() + " did not answer in HTTP"));
  EXPECT_THAT(answer.calls, ElementsAre("end"));
}

TEST_F(HttpFault, CompressionThatIsNone) {
  const Answer answer = Fetch(http_, Get(server_.Url("/badgzip")));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), HasSubstr("cannot be decompressed"));
}

TEST_F(HttpFault, HeadersThatWouldSmuggleOthers) {
  const std::string nul("a\0b", 3);
  for (const std::string& value :
       {std::string("v\r\nX-Admin: 1"), std::string("v\n"), std::string("\rv"), nul,
        std::string("v\x7f"), std::string("v\x01")}) {
    HttpRequest request = Post(server_.Url("/echo"), "");
    request.headers = {{"csb-token", value}};
    const Answer answer = Fetch(http_, request);
    EXPECT_EQ(answer.error_class(), "validation");
    EXPECT_THAT(answer.error(), AllOf(HasSubstr("the header csb-token"), HasSubstr(Host()),
                                      Not(HasSubstr("X-Admin"))));
  }
  for (const std::string& name : {std::string("X-A: b\r\nX-B"), std::string(), std::string("X Y"),
                                  std::string("X:"), std::string("X-\xC3\xA4")}) {
    HttpRequest request = Post(server_.Url("/echo"), "");
    request.headers = {{name, "v"}};
    EXPECT_EQ(Fetch(http_, request).error_class(), "validation") << name;
  }
  for (const char* name : {"Content-Length", "transfer-encoding"}) {
    HttpRequest request = Post(server_.Url("/echo"), "body");
    request.headers = {{name, "1"}};
    EXPECT_EQ(Fetch(http_, request).error_class(), "validation") << name;
  }
  HttpRequest request = Post(server_.Url("/echo"), "");
  request.method = "GET /x HTTP/1.1\r\nX-Admin: 1\r\n\r\nPOST";
  EXPECT_EQ(Fetch(http_, request).error_class(), "validation");
  EXPECT_EQ(Count(server_, "count/echo"), 0) << "none of them was sent";
}

TEST_F(HttpFault, NextRequestAfterAFaultIsFine) {
  for (const char* path : {"/cut", "/reset", "/garbage", "/hangup", "/badgzip"}) {
    EXPECT_NE(Fetch(http_, Get(server_.Url(path))).error(), "");
    EXPECT_EQ(Fetch(http_, Get(server_.Url("/echo"))).head.status, 200) << "after " << path;
  }
}

}  // namespace
}  // namespace kernel_evolve::testing
