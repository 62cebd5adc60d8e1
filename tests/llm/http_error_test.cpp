// Sentences for failures that a loopback server cannot bring about.
#include "core/llm/http_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace kernel_evolve {
namespace {

using ::testing::HasSubstr;

HttpFailure Failure(CURLcode code, const std::string& detail = "") {
  HttpFailure failure;
  failure.code = code;
  failure.detail = detail;
  failure.host = "api.example:443";
  failure.https = true;
  return failure;
}

std::string Sentence(const HttpFailure& failure) { return ExplainHttpFailure(failure, {}).message; }

TEST(HttpError, NoConnectionInTime) {
  const Error error = ExplainHttpFailure(Failure(CURLE_OPERATION_TIMEDOUT), {});
  EXPECT_EQ(error.error_class, ErrorClass::kTimeout);
  EXPECT_EQ(error.message,
            "no connection to api.example:443 within 10 s; check the address and the network, or "
            "raise limits.connect_timeout in the profile");
  HttpOptions quick;
  quick.timeout_s = 2.5;
  EXPECT_THAT(ExplainHttpFailure(Failure(CURLE_OPERATION_TIMEDOUT), quick).message,
              HasSubstr("within 2.5 s; raise limits.timeout"))
      << "the shorter limit is what ended it";
}

TEST(HttpError, CertificateOutOfDate) {
  EXPECT_THAT(Sentence(Failure(CURLE_PEER_FAILED_VERIFICATION,
                               "SSL certificate problem: certificate has expired")),
              HasSubstr("is out of date (SSL certificate problem: certificate has expired); check "
                        "this computer's clock"));
}

TEST(HttpError, SameFaultInTheWordsOfEitherTlsLibrary) {
  for (const char* detail : {"SSL: no alternative certificate subject name matches target host "
                             "name 'localhost'",
                             "SSL: certificate subject name (x) does not match target host name"}) {
    EXPECT_THAT(Sentence(Failure(CURLE_PEER_FAILED_VERIFICATION, detail)),
                HasSubstr("for another host name"));
  }
  for (const char* detail :
       {"SSL certificate problem: unable to get local issuer certificate",
        "server certificate verification failed. CAfile: none CRLfile: none"}) {
    EXPECT_THAT(Sentence(Failure(CURLE_PEER_FAILED_VERIFICATION, detail)),
                HasSubstr("tls.ca_bundle in the profile"));
  }
}

TEST(HttpError, LastsWhereSomeoneHasToChangeSomething) {
  for (const CURLcode code : {CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE,
                              CURLE_SSL_CERTPROBLEM, CURLE_UNSUPPORTED_PROTOCOL}) {
    EXPECT_TRUE(IsLasting(Failure(code))) << code;
  }
  for (const CURLcode code :
       {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_OPERATION_TIMEDOUT,
        CURLE_SSL_CONNECT_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_HTTP2_STREAM}) {
    EXPECT_FALSE(IsLasting(Failure(code))) << code;
  }
  EXPECT_TRUE(IsLasting(Failure(CURLE_SSL_CONNECT_ERROR, "wrong version number")));
  EXPECT_TRUE(IsLasting(Failure(CURLE_RECV_ERROR, "tlsv13 alert certificate required")));
  HttpFailure refused = Failure(CURLE_PROXY);
  refused.proxy_status = 403;
  EXPECT_TRUE(IsLasting(refused));
  refused.proxy_status = 503;
  EXPECT_FALSE(IsLasting(refused));
}

TEST(HttpError, TooManyFiles) {
  HttpFailure failure = Failure(CURLE_COULDNT_CONNECT);
  failure.os_error = EMFILE;
  EXPECT_THAT(Sentence(failure), HasSubstr("raise ulimit -n"));
}

TEST(HttpError, UnreachableNetwork) {
  HttpFailure failure = Failure(CURLE_COULDNT_CONNECT);
  failure.os_error = ENETUNREACH;
  EXPECT_THAT(Sentence(failure), HasSubstr("Network is unreachable"));
}

TEST(HttpError, AnyCodeHasAClassAndNamesTheHost) {
  for (int code = 1; code < CURL_LAST; ++code) {
    const Error error = ExplainHttpFailure(Failure(static_cast<CURLcode>(code)), {});
    EXPECT_NE(error.error_class, ErrorClass::kInternal) << code;
    const bool about_files = error.error_class == ErrorClass::kValidation;
    EXPECT_TRUE(about_files || error.message.find("api.example:443") != std::string::npos ||
                code == CURLE_COULDNT_RESOLVE_PROXY)
        << code << ": " << error.message;
  }
}

}  // namespace
}  // namespace kernel_evolve
