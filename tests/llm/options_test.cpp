// What a profile says of an endpoint.
#include "core/llm/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace kernel_evolve {
namespace {

Result<EndpointOptions> Take(const std::string& text, Json* params,
                             const std::filesystem::path& folder = {}) {
  *params = *Json::Parse(text);
  return TakeEndpointOptions("author", folder, params);
}

std::string Refusal(const std::string& text) {
  Json params;
  const auto options = Take(text, &params);
  if (options) return "accepted";
  EXPECT_EQ(options.error().exit_code, kExitBadInput);
  return options.error().message;
}

TEST(Options, LeaveTheCodecsKeysAlone) {
  Json params;
  const auto options =
      Take(R"({"model": "m", "base_url": "https://h/v1", "limits": {"timeout": "5m",
      "concurrency": 8, "idle_timeout": 1.5, "max_response": "2M"}, "retry": {"attempts": 2},
      "http_version": "1.1", "proxy": "none", "capabilities": ["tools"],
      "sampling": {"temperature": 0.8, "max_tokens": "8k", "extra": {"top_a": 1}}})",
           &params);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(params.Dump(), R"({"base_url":"https://h/v1","model":"m"})");
  EXPECT_EQ(options->http.timeout_s, 300);
  EXPECT_EQ(options->http.idle_timeout_s, 1.5);
  EXPECT_EQ(options->http.max_response_bytes, 2000000U);
  EXPECT_EQ(options->http.proxy, "none");
  EXPECT_EQ(options->limits.concurrency, 8);
  EXPECT_EQ(options->retry.attempts, 2);
  EXPECT_EQ(options->sampling.Dump(),
            R"({"extra":{"top_a":1},"max_tokens":8000,"temperature":0.8})");
  EXPECT_THAT(*options->capabilities, testing::ElementsAre("tools"));
}

TEST(Options, NothingSaidIsNothingSampled) {
  Json params;
  const auto options = Take(R"({"model": "m"})", &params);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->sampling.Dump(), "{}");
  EXPECT_FALSE(options->capabilities);
}

TEST(Options, ABareNumberIsAVersionOfHttp) {
  Json params;
  EXPECT_EQ(Take(R"({"http_version": 1.1})", &params)->http.http_version, "1.1");
  EXPECT_EQ(Take(R"({"http_version": 2})", &params)->http.http_version, "2");
}

TEST(Options, EachMistakeIsASentenceWithItsPlace) {
  EXPECT_EQ(Refusal(R"({"limits": {"timout": "5m"}})"),
            "the model 'author': limits.timout: there is no such key; did you mean 'timeout'?");
  EXPECT_EQ(Refusal(R"({"limits": {"timeout": "soon"}})"),
            "the model 'author': limits.timeout: expected a duration such as 30s");
  EXPECT_EQ(Refusal(R"({"limits": {"concurrency": 0}})"),
            "the model 'author': limits.concurrency: expected a whole number from 1 to 100000");
  EXPECT_EQ(Refusal(R"({"retry": 3})"),
            "the model 'author': retry: expected a mapping with the keys attempts, backoff, "
            "max_wait");
  EXPECT_EQ(Refusal(R"({"http_version": "3"})"),
            "the model 'author': http_version: expected auto, 1.1 or 2");
  EXPECT_EQ(Refusal(R"({"sampling": {"temprature": 1}})"),
            "the model 'author': sampling.temprature: there is no such key; did you mean "
            "'temperature'?");
  EXPECT_EQ(Refusal(R"({"capabilities": "tools"})"),
            "the model 'author': capabilities: expected a list such as [tools, streaming]");
  EXPECT_EQ(Refusal(R"({"tls": {"ca_bundle": "/nowhere/ca.pem"}})"),
            "the model 'author': tls.ca_bundle: there is no file /nowhere/ca.pem");
}

TEST(Options, FilesAreLookedUpBesideTheProfile) {
  const std::filesystem::path folder = testing::TempDir();
  std::ofstream(folder / "options_test_ca.pem") << "x";
  Json params;
  const auto options = Take(R"({"tls": {"ca_bundle": "options_test_ca.pem"}})", &params, folder);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->http.ca_bundle, (folder / "options_test_ca.pem").string());
}

}  // namespace
}  // namespace kernel_evolve
