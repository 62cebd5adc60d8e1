// TLS is verified always, with authorities and certificates that the options name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/llm/http_fixture.hpp"
#include "tests/loopback/loopback.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HttpTls : public ::testing::Test {
 protected:
  HttpRequest Request(const Loopback& server, const std::string& name = "localhost") const {
    HttpRequest request = Get(server.Url("/echo", "https", name));
    request.options.ca_bundle = files_.authority();
    return request;
  }

  Certificates files_;
  HttpTransport http_;
};

TEST_F(HttpTls, AnAuthorityThatTheSystemDoesNotKnowIsRefused) {
  const Loopback server({"--tls", files_.server(), files_.server_key()});
  HttpRequest request = Request(server);
  request.options.ca_bundle.clear();
  const Answer answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr("localhost:" + std::to_string(server.port())),
                                    HasSubstr("tls.ca_bundle in the profile")));
  // The bundle makes it known, by name and by number.
  for (const char* name : {"localhost", "127.0.0.1"}) {
    const Answer known = Fetch(http_, Request(server, name));
    EXPECT_EQ(known.error(), "");
    EXPECT_EQ(known.head.status, 200);
  }
  // And an open connection is not lent to a request that does not trust it.
  EXPECT_EQ(Fetch(http_, request).error_class(), "communication");
}

TEST_F(HttpTls, TheBundleStandsForTheSystemsAuthorities) {
  const Certificates others;
  const Loopback server({"--tls", files_.server(), files_.server_key()});
  HttpRequest request = Request(server);
  request.options.ca_bundle = others.authority();
  EXPECT_THAT(Fetch(http_, request).error(),
              AllOf(HasSubstr("those in " + others.authority()), HasSubstr("tls.ca_bundle")));
}

TEST_F(HttpTls, AnotherHostsCertificateIsRefused) {
  const Loopback server({"--tls", files_.stranger(), files_.stranger_key()});
  for (const char* name : {"localhost", "127.0.0.1"}) {
    const Answer answer = Fetch(http_, Request(server, name));
    EXPECT_EQ(answer.error_class(), "communication");
    EXPECT_THAT(answer.error(), HasSubstr("is for another host name"));
  }
}

TEST_F(HttpTls, AnExpiredCertificateIsRefused) {
  const Loopback server({"--tls", files_.expired(), files_.expired_key()});
  const Answer answer = Fetch(http_, Request(server));
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr("localhost:" + std::to_string(server.port())),
                                    HasSubstr("is out of date"), HasSubstr("clock")));
}

TEST_F(HttpTls, AServerMayDemandAClientCertificate) {
  const Loopback server(
      {"--tls", files_.server(), files_.server_key(), "--client-ca", files_.authority()});
  const Answer without = Fetch(http_, Request(server));
  EXPECT_EQ(without.error_class(), "communication");
  EXPECT_THAT(without.error(), HasSubstr("tls.client_certificate"));

  HttpRequest request = Request(server);
  request.options.client_certificate = files_.client();
  request.options.client_key = files_.client_key();
  const Answer with = Fetch(http_, request);
  EXPECT_EQ(with.error(), "");
  EXPECT_EQ(with.head.status, 200);
  EXPECT_NE(Fetch(http_, Request(server)).error(), "")
      << "a connection with a certificate is not lent to a request without";

  // Both in one file.
  const std::string both = (files_.folder() / "both.pem").string();
  std::ofstream(both) << std::ifstream(files_.client()).rdbuf()
                      << std::ifstream(files_.client_key()).rdbuf();
  HttpRequest joined = Request(server);
  joined.options.client_certificate = both;
  EXPECT_EQ(Fetch(http_, joined).error(), "");

  const Certificates others;
  HttpRequest foreign = Request(server);
  foreign.options.client_certificate = others.client();
  foreign.options.client_key = others.client_key();
  const Answer refused = Fetch(http_, foreign);
  EXPECT_EQ(refused.error_class(), "communication");
  EXPECT_THAT(refused.error(), HasSubstr(others.client()));
}

TEST_F(HttpTls, FilesThatCannotBeUsedAreNamed) {
  const Loopback server({"--tls", files_.server(), files_.server_key()});
  HttpRequest request = Request(server);
  request.options.ca_bundle = "/nowhere/ca.pem";
  Answer answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "validation");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr("/nowhere/ca.pem"), HasSubstr("tls.ca_bundle")));

  const std::string text = (files_.folder() / "text.pem").string();
  std::ofstream(text) << "not PEM\n";
  request.options.ca_bundle = text;
  answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "validation");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr(text), HasSubstr("tls.ca_bundle")));

  request = Request(server);
  request.options.client_certificate = text;
  answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "validation");
  EXPECT_THAT(answer.error(), AllOf(HasSubstr(text), HasSubstr("tls.client_certificate")));

  // Nobody is asked for the passphrase.
  for (const std::string& key : {files_.locked_key(), files_.server_key()}) {
    request = Request(server);
    request.options.client_certificate = files_.client();
    request.options.client_key = key;
    answer = Fetch(http_, request);
    EXPECT_EQ(answer.error_class(), "validation") << key;
    EXPECT_THAT(answer.error(), HasSubstr("tls.client_key"));
  }
}

TEST_F(HttpTls, TheWrongProtocolOnEitherSide) {
  const Loopback plain;
  const Answer to_plain = Fetch(http_, Request(plain));
  EXPECT_EQ(to_plain.error_class(), "communication");
  EXPECT_THAT(to_plain.error(), HasSubstr("does not speak TLS"));
  const Loopback secure({"--tls", files_.server(), files_.server_key()});
  const Answer to_secure = Fetch(http_, Get(secure.Url("/echo")));
  EXPECT_EQ(to_secure.error_class(), "communication");
}

TEST_F(HttpTls, ABurstToAnHttp1ServerIsServed) {
  const Loopback server({"--tls", files_.server(), files_.server_key()});
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 20; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    HttpRequest request = Request(server);
    request.url = server.Url("/gate/go", "https", "localhost");
    http_.Send(request, recorders.back());
  }
  HttpRequest control = Request(server);
  control.url = server.Url("/control/hit/20/gate", "https", "localhost");
  EXPECT_EQ(Fetch(http_, control).error(), "");
  control.url = server.Url("/control/open/go", "https", "localhost");
  EXPECT_EQ(Fetch(http_, control).error(), "");
  for (const auto& recorder : recorders) EXPECT_EQ(recorder->Wait().body, "firstsecond");
}

TEST_F(HttpTls, VersionsOfHttp) {
  const Loopback server({"--tls", files_.server(), files_.server_key()});
  for (const char* version : {"auto", "1.1", "2"}) {
    HttpRequest request = Request(server);
    request.options.http_version = version;
    EXPECT_EQ(Fetch(http_, request).head.status, 200)
        << version << ": TLS agrees on 1.1 with a server that has no other";
  }
  // Without TLS nothing is agreed on: 2 means 2.
  const Loopback plain;
  HttpRequest request = Get(plain.Url("/echo"));
  request.options.http_version = "2";
  const Answer answer = Fetch(http_, request);
  EXPECT_EQ(answer.error_class(), "communication");
  EXPECT_THAT(answer.error(), HasSubstr("127.0.0.1:" + std::to_string(plain.port())));
  request.options.http_version = "3";
  EXPECT_EQ(Fetch(http_, request).error_class(), "validation");
}

}  // namespace
}  // namespace kernel_evolve::testing
