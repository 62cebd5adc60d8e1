// Proxies, from the options and from the environment, as users of curl know them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/json.hpp"
#include "tests/llm/http_fixture.hpp"
#include "tests/loopback/loopback.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Sets a variable for one test; all proxy variables are unset before.
class Environment {
 public:
  Environment() {
    for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                             "no_proxy", "NO_PROXY"}) {
      unsetenv(name);
    }
  }
  void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
};

class HttpProxy : public ::testing::Test {
 protected:
  HttpRequest Request(const std::string& url, const std::string& proxy) const {
    HttpRequest request = Get(url);
    request.options.proxy = proxy;
    return request;
  }
  int64_t Proxied() {
    HttpTransport http;
    const Answer answer = Fetch(http, Get(proxy_.Url("/control/count/proxy")));
    return (*Json::Parse(answer.body))["count"].integer();
  }

  Environment environment_;
  Loopback server_;
  Loopback proxy_;
  HttpTransport http_;
};

TEST_F(HttpProxy, OfTheOptions) {
  const Answer answer = Fetch(http_, Request(server_.Url("/echo/a?b=c"), proxy_.Url("")));
  EXPECT_EQ(answer.error(), "");
  EXPECT_THAT(answer.body, AllOf(HasSubstr("\"/echo/a?b=c\""), HasSubstr("x-proxied")));
  EXPECT_EQ(Proxied(), 1);
}

TEST_F(HttpProxy, OfTheEnvironment) {
  environment_.Set("http_proxy", proxy_.Url(""));
  EXPECT_THAT(Fetch(http_, Request(server_.Url("/echo"), "")).body, HasSubstr("x-proxied"));
  EXPECT_THAT(Fetch(http_, Request(server_.Url("/echo"), "none")).body,
              Not(HasSubstr("x-proxied")));
  environment_.Set("no_proxy", "127.0.0.1");
  EXPECT_THAT(Fetch(http_, Request(server_.Url("/echo"), "")).body, Not(HasSubstr("x-proxied")));
  EXPECT_EQ(Proxied(), 1);
}

TEST_F(HttpProxy, TlsGoesThroughATunnel) {
  const Certificates files;
  const Loopback secure({"--tls", files.server(), files.server_key()});
  HttpRequest request = Request(secure.Url("/echo", "https", "localhost"), proxy_.Url(""));
  request.options.ca_bundle = files.authority();
  request.headers = {{"Authorization", "Bearer sk-1"}};
  const Answer answer = Fetch(http_, request);
  EXPECT_EQ(answer.error(), "");
  EXPECT_EQ(answer.head.status, 200) << "the tunnel's own head is not the answer's";
  EXPECT_EQ(answer.calls.size(), 3U);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("Bearer sk-1"), Not(HasSubstr("x-proxied"))));
  EXPECT_EQ(Proxied(), 1);
  environment_.Set("https_proxy", proxy_.Url(""));
  request.options.proxy.clear();
  EXPECT_EQ(Fetch(http_, request).error(), "");
}

TEST_F(HttpProxy, OneThatRefuses) {
  const std::string proxy = "127.0.0.1:" + std::to_string(proxy_.port());
  const std::string with_key = "http://user:s3cret@" + proxy;
  Answer answer = Fetch(http_, Request("https://locked.test/v1", with_key));
  EXPECT_EQ(answer.error_class(), "auth");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr("the proxy " + proxy + " demands a user"),
                                    HasSubstr("locked.test:443"), Not(HasSubstr("s3cret"))));
  answer = Fetch(http_, Request("https://forbidden.test/v1", with_key));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(),
              AllOf(HasSubstr("(403)"), HasSubstr("forbidden.test:443"), Not(HasSubstr("s3cret"))));
}

TEST_F(HttpProxy, OneThatIsNotThere) {
  const DeadPort dead;
  const std::string proxy = "127.0.0.1:" + std::to_string(dead.port());
  Answer answer = Fetch(http_, Request(server_.Url("/echo"), "http://user:s3cret@" + proxy));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr("through the proxy " + proxy), HasSubstr("refused"),
                                    Not(HasSubstr("s3cret"))));
  environment_.Set("http_proxy", "http://" + proxy);
  answer = Fetch(http_, Request(server_.Url("/echo"), ""));
  EXPECT_THAT(answer.error(), HasSubstr("the environment names a proxy: http_proxy"));
}

TEST_F(HttpProxy, WordsThatAreNoProxy) {
  for (const char* proxy : {"ftp://host:1", "http://", "gopher://user:s3cret@host", "http://a b"}) {
    const Answer answer = Fetch(http_, Request(server_.Url("/echo"), proxy));
    EXPECT_EQ(answer.error_class(), "validation") << proxy;
    EXPECT_THAT(answer.error(), AllOf(HasSubstr("proxy in the profile"), Not(HasSubstr("s3cret"))));
  }
}

}  // namespace
}  // namespace kernel_evolve::testing
