// Model calls against a real server on loopback: attempts, limits, cancellation, secrets.
#include "core/llm/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/loopback/loopback.hpp"

namespace kernel_evolve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kPatience = std::chrono::seconds(30);

// Takes a whole body as the text of the answer; a status from 400 up is an error.
class PlainCodec : public Codec {
 public:
  explicit PlainCodec(std::string url) : url_(std::move(url)) {}
  Result<EncodedRequest> Encode(const Json& request) override {
    return EncodedRequest{
        "POST", url_, {{"Authorization", "Bearer ${env:KEY}"}, {"X-Plain", "1"}}, request.Dump()};
  }
  Status Begin(const Json& head) override {
    status_ = static_cast<int>(head.Integer("status"));
    body_.clear();
    return {};
  }
  Status Feed(std::string_view bytes, std::string* events) override {
    body_.append(bytes);
    *events += "{\"type\":\"text\"}\n";
    if (body_.find("PROTOCOL") != std::string::npos) {
      return Failed(ErrorClass::kInvalidOutput, "the reply is not what was expected");
    }
    if (body_.find("LAST WORD") != std::string::npos) *events += "{\"type\":\"end\"}\n";
    return {};
  }
  Result<Json> Finish(bool complete) override {
    const bool whole = complete || body_.find("LAST WORD") != std::string::npos;
    if (status_ == 429) return Wrong("rate_limit");
    if (status_ == 401) return Wrong("auth");
    if (status_ >= 400) return Wrong("unavailable");
    if (!whole) return Wrong("communication");
    return Json::Obj({{"response", Json::Obj({{"text", body_}})}});
  }

 private:
  Json Wrong(const char* error_class) const {
    return Json::Obj({{"error", Json::Obj({{"class", error_class}, {"message", body_}})}});
  }

  const std::string url_;
  int status_ = 0;
  std::string body_;
};

class Client : public ::testing::Test {
 protected:
  ModelCall To(const std::string& path) const { return At(server_.Url(path)); }

  static ModelCall At(const std::string& url) {
    ModelCall call;
    call.codec = std::make_unique<PlainCodec>(url);
    call.request = *Json::Parse(R"({"messages": [{"role": "user", "content": "hello"}],
                                    "sampling": {"top_k": 5}, "context": {"large": 1}})");
    call.secrets = Secrets(std::map<std::string, std::string>{{"KEY", "sk-very-secret"}});
    call.options.retry.backoff_s = 0.001;
    return call;
  }

  std::future<ModelReply> Begin(ModelCall call, int64_t* id = nullptr,
                                ModelClient::Progress progress = nullptr) {
    const auto promise = std::make_shared<std::promise<ModelReply>>();
    const int64_t number = client_.Call(
        std::move(call), [promise](ModelReply reply) { promise->set_value(std::move(reply)); },
        std::move(progress));
    if (id != nullptr) *id = number;
    return promise->get_future();
  }

  ModelReply Ask(ModelCall call) {
    auto future = Begin(std::move(call));
    if (future.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "no reply";
      return {Failed(ErrorClass::kInternal, "no reply"), Json()};
    }
    return future.get();
  }

  testing::Loopback server_;
  ModelClient client_;
};

TEST_F(Client, SendsTheRequestWithItsSecretsAndWithoutItsContext) {
  ModelCall call = To("/echo");
  call.options.sampling = *Json::Parse(R"({"temperature": 0.5, "top_k": 1})");
  const ModelReply reply = Ask(std::move(call));
  ASSERT_TRUE(reply.response) << reply.response.error().message;
  const Json echoed = *Json::Parse(reply.response->Text("text"));
  const Json sent = *Json::Parse(echoed.Text("body"));
  EXPECT_FALSE(sent.contains("context"));
  EXPECT_EQ(sent["sampling"].Dump(), R"({"temperature":0.5,"top_k":5})")
      << "the request's own value wins";
  EXPECT_TRUE(sent.Flag("stream"));
  EXPECT_EQ(reply.call.Integer("attempts"), 1);
  EXPECT_EQ(reply.call.Integer("status"), 200);
  EXPECT_GT(reply.call.Number("first_byte_s"), 0);
}

TEST_F(Client, StrikesASecretThatComesBack) {
  const ModelReply reply = Ask(To("/echo"));
  ASSERT_TRUE(reply.response);
  EXPECT_THAT(reply.response->Text("text"), Not(HasSubstr("sk-very-secret")));
  EXPECT_THAT(reply.response->Text("text"), HasSubstr("Bearer [KEY]"))
      << "it did arrive, and was struck out of the answer";
}

TEST_F(Client, TriesAgainAsTheServiceAsks) {
  const ModelReply reply = Ask(To("/storm/2/429/a?retry-after-ms=1"));
  ASSERT_TRUE(reply.response) << reply.response.error().message;
  EXPECT_EQ(reply.call.Integer("attempts"), 3);
  EXPECT_EQ(reply.call["failures"]["429"], Json(2));
}

TEST_F(Client, GivesUpAfterTheLastAttempt) {
  ModelCall call = To("/status/503");
  call.options.retry.attempts = 3;
  const ModelReply reply = Ask(std::move(call));
  ASSERT_FALSE(reply.response);
  EXPECT_EQ(reply.response.error().error_class, ErrorClass::kUnavailable);
  EXPECT_THAT(reply.response.error().message, HasSubstr("(3 attempts)"));
  EXPECT_EQ(reply.call.Integer("attempts"), 3);
}

TEST_F(Client, AWrongKeyIsNotTriedAgain) {
  const ModelReply reply = Ask(To("/status/401"));
  ASSERT_FALSE(reply.response);
  EXPECT_EQ(reply.response.error().error_class, ErrorClass::kAuth);
  EXPECT_EQ(reply.call.Integer("attempts"), 1);
}

TEST_F(Client, AMissingSecretStopsTheCallBeforeAnythingIsSent) {
  ModelCall call = To("/echo");
  call.secrets = Secrets();
  const ModelReply reply = Ask(std::move(call));
  ASSERT_FALSE(reply.response);
  EXPECT_EQ(reply.response.error().error_class, ErrorClass::kAuth);
  EXPECT_EQ(reply.call.Integer("attempts"), 0);
}

TEST_F(Client, ASilentEndpointTimesOutAndIsTriedAgain) {
  ModelCall call = To("/silent");
  call.options.http.idle_timeout_s = 0.1;
  call.options.retry.attempts = 2;
  const ModelReply reply = Ask(std::move(call));
  ASSERT_FALSE(reply.response);
  EXPECT_EQ(reply.response.error().error_class, ErrorClass::kTimeout);
  EXPECT_EQ(reply.call["failures"]["timeout"], Json(2));
}

TEST_F(Client, CancelEndsACallInEveryState) {
  int64_t id = 0;
  auto in_flight = Begin(To("/silent"), &id);
  client_.Cancel(id);
  ModelCall retrying = To("/status/503");
  retrying.options.retry.backoff_s = 100;
  std::promise<void> failed_once;
  auto waits_to_retry = Begin(std::move(retrying), &id, [&failed_once](const Json& data) {
    if (data.Text("text").starts_with("attempt 1 failed")) failed_once.set_value();
  });
  ASSERT_EQ(failed_once.get_future().wait_for(kPatience), std::future_status::ready);
  client_.Cancel(id);
  ModelCall first = To("/silent");
  first.options.limits.concurrency = 1;
  ModelCall second = To("/silent");
  second.options.limits.concurrency = 1;
  int64_t holder = 0;
  auto holds = Begin(std::move(first), &holder);
  auto queued = Begin(std::move(second), &id);
  client_.Cancel(id);
  for (auto* future : {&in_flight, &waits_to_retry, &queued}) {
    ASSERT_EQ(future->wait_for(kPatience), std::future_status::ready);
    const ModelReply reply = future->get();
    ASSERT_FALSE(reply.response);
    EXPECT_EQ(reply.response.error().error_class, ErrorClass::kCancelled);
  }
  client_.Cancel(holder);
  EXPECT_EQ(holds.wait_for(kPatience), std::future_status::ready);
  client_.Cancel(holder);  // ended already: nothing happens
}

TEST_F(Client, TheDestructorEndsEveryCall) {
  std::vector<std::future<ModelReply>> futures;
  {
    ModelClient client;
    for (int i = 0; i < 8; ++i) {
      const auto promise = std::make_shared<std::promise<ModelReply>>();
      ModelCall call = To("/silent");
      call.options.limits.concurrency = 2;
      client.Call(std::move(call),
                  [promise](ModelReply reply) { promise->set_value(std::move(reply)); });
      futures.push_back(promise->get_future());
    }
  }
  for (auto& future : futures) {
    ASSERT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    EXPECT_EQ(future.get().response.error().error_class, ErrorClass::kCancelled);
  }
}

TEST_F(Client, KeepsToTheConcurrencyOfTheEndpoint) {
  std::vector<std::future<ModelReply>> futures;
  for (int i = 0; i < 6; ++i) {
    ModelCall call = To("/slow/20");
    call.options.limits.concurrency = 2;
    futures.push_back(Begin(std::move(call)));
  }
  double longest_wait = 0;
  for (auto& future : futures) {
    ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
    const ModelReply reply = future.get();
    ASSERT_TRUE(reply.response) << reply.response.error().message;
    longest_wait = std::max(longest_wait, reply.call.Number("waited_s"));
  }
  EXPECT_GT(longest_wait, 0.03) << "the last two wait for two rounds of 20 ms";
}

TEST_F(Client, ABrokenProtocolEndsTheTransferAndIsNotTriedAgain) {
  const ModelReply reply = Ask(To("/say/PROTOCOL"));
  ASSERT_FALSE(reply.response);
  EXPECT_EQ(reply.response.error().error_class, ErrorClass::kInvalidOutput);
  EXPECT_EQ(reply.call.Integer("attempts"), 1);
}

TEST_F(Client, DoesNotWaitForAServerThatHoldsTheLineAfterItsLastWord) {
  const ModelReply reply = Ask(To("/say/LAST%20WORD"));
  ASSERT_TRUE(reply.response) << reply.response.error().message;
  EXPECT_EQ(reply.response->Text("text"), "LAST WORD");
}

TEST_F(Client, WhatTheSameRequestWouldMeetAgainIsNotTriedAgain) {
  const testing::Certificates files;
  const testing::Loopback secure({"--tls", files.server(), files.server_key()});
  const testing::Loopback strange({"--tls", files.stranger(), files.stranger_key()});
  const testing::Loopback old({"--tls", files.expired(), files.expired_key()});
  const std::string here = secure.Url("/echo", "https", "localhost");
  const struct {
    std::string url;
    std::string ca_bundle;
    std::string http_version;
    const char* says;
  } kCases[] = {
      {here, "", "auto", "tls.ca_bundle in the profile"},
      {here, files.server_key(), "auto", "tls.ca_bundle in the profile"},
      {here, files.authority(), "3", "http_version in the profile"},
      {strange.Url("/echo", "https", "localhost"), files.authority(), "auto", "host name"},
      {old.Url("/echo", "https", "localhost"), files.authority(), "auto", "out of date"},
      {server_.Url("/echo", "https"), files.authority(), "auto", "does not speak TLS"},
  };
  for (const auto& one : kCases) {
    ModelCall call = At(one.url);
    call.options.http.proxy = "none";
    call.options.http.ca_bundle = one.ca_bundle;
    call.options.http.http_version = one.http_version;
    const ModelReply reply = Ask(std::move(call));
    ASSERT_FALSE(reply.response) << one.says;
    EXPECT_THAT(reply.response.error().message, HasSubstr(one.says));
    EXPECT_THAT(reply.response.error().message, Not(HasSubstr("attempts")));
    EXPECT_EQ(reply.call.Integer("attempts"), 1) << one.says;
  }
}

TEST_F(Client, ADeadEndpointIsTriedAgain) {
  const testing::DeadPort nobody;
  ModelCall call = At("http://127.0.0.1:" + std::to_string(nobody.port()) + "/");
  call.options.http.proxy = "none";
  call.options.retry.attempts = 2;
  EXPECT_EQ(Ask(std::move(call)).call.Integer("attempts"), 2);
}

TEST_F(Client, ABodyThatBreaksOffIsTriedAgain) {
  ModelCall call = To("/cut");
  call.options.retry.attempts = 2;
  const ModelReply reply = Ask(std::move(call));
  ASSERT_FALSE(reply.response);
  EXPECT_EQ(reply.response.error().error_class, ErrorClass::kCommunication);
  EXPECT_EQ(reply.call.Integer("attempts"), 2);
}

}  // namespace
}  // namespace kernel_evolve
