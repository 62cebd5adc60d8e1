// The transport's thread: cancelling, destroying, closures.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mutex>
#include <thread>

#include "core/base/json.hpp"
#include "tests/llm/http_fixture.hpp"
#include "tests/loopback/loopback.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Ask(const Loopback& server, const std::string& what) {
  HttpTransport http;  // of its own: another's may be the one under test
  ASSERT_EQ(Fetch(http, Get(server.Url("/control/" + what))).head.status, 200);
}

TEST(HttpCancel, ClosesTheConnection) {
  const Loopback server;
  HttpTransport http;
  const auto recorder = std::make_shared<Recorder>();
  const int64_t id = http.Send(Get(server.Url("/silent")), recorder);
  Ask(server, "hit/1/silent");
  http.Cancel(id);
  const Answer answer = recorder->Wait();
  EXPECT_EQ(answer.error_class(), "cancelled");
  EXPECT_THAT(answer.error(), HasSubstr("127.0.0.1:" + std::to_string(server.port())));
  EXPECT_THAT(answer.calls, ElementsAre("end"));
  Ask(server, "gone/1/silent");
}

TEST(HttpCancel, EndsOneAndLeavesTheOthers) {
  const Loopback server;
  HttpTransport http;
  std::vector<std::shared_ptr<Recorder>> recorders;
  std::vector<int64_t> ids;
  for (int i = 0; i < 20; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    ids.push_back(http.Send(Get(server.Url("/gate/go")), recorders.back()));
  }
  Ask(server, "hit/20/gate");
  for (size_t i = 0; i < ids.size(); i += 2) http.Cancel(ids[i]);
  Ask(server, "open/go");
  for (size_t i = 0; i < ids.size(); ++i) {
    const Answer answer = recorders[i]->Wait();
    if (i % 2 == 0) {
      EXPECT_EQ(answer.error_class(), "cancelled");
    } else {
      EXPECT_EQ(answer.body, "firstsecond");
    }
  }
}

TEST(HttpCancel, FromWithinACallbackNothingMoreIsHeardButTheEnd) {
  const Loopback server;
  HttpTransport http;
  const auto recorder = std::make_shared<Recorder>();
  int64_t id = 0;
  int arrivals = 0;
  recorder->on_bytes = [&](std::string_view) {
    ++arrivals;
    http.Cancel(id);
  };
  http.Post([&] { id = http.Send(Get(server.Url("/endless")), recorder); });
  const Answer answer = recorder->Wait();
  EXPECT_EQ(answer.error_class(), "cancelled");
  EXPECT_EQ(arrivals, 1);
  Ask(server, "gone/1/endless");
}

TEST(HttpCancel, FromTheHeadNoBytesAreHeard) {
  const Loopback server;
  HttpTransport http;
  const auto recorder = std::make_shared<Recorder>();
  int64_t id = 0;
  recorder->on_head = [&](const HttpHead&) { http.Cancel(id); };
  http.Post([&] { id = http.Send(Get(server.Url("/echo")), recorder); });
  const Answer answer = recorder->Wait();
  EXPECT_EQ(answer.error_class(), "cancelled");
  EXPECT_THAT(answer.calls, ElementsAre("head", "end"));
}

TEST(HttpCancel, TooLateOrUnknownIsIgnored) {
  const Loopback server;
  HttpTransport http;
  const auto recorder = std::make_shared<Recorder>();
  const int64_t id = http.Send(Get(server.Url("/echo")), recorder);
  EXPECT_EQ(recorder->Wait().error(), "");
  http.Cancel(id);
  http.Cancel(id + 1000);
  EXPECT_EQ(Fetch(http, Get(server.Url("/echo"))).error(), "");
}

TEST(HttpCancel, BeforeItBegan) {
  const Loopback server;
  HttpTransport http;
  const auto recorder = std::make_shared<Recorder>();
  http.Cancel(http.Send(Get(server.Url("/silent")), recorder));
  EXPECT_EQ(recorder->Wait().error_class(), "cancelled");
}

TEST(HttpSend, NumbersAreNeverUsedTwice) {
  const Loopback server;
  HttpTransport http;
  std::vector<int64_t> ids;
  for (int i = 0; i < 3; ++i) {
    const auto recorder = std::make_shared<Recorder>();
    ids.push_back(http.Send(Get(server.Url("/echo")), recorder));
    recorder->Wait();
  }
  EXPECT_LT(ids[0], ids[1]);
  EXPECT_LT(ids[1], ids[2]);
}

TEST(HttpSend, FromWithinACallback) {
  const Loopback server;
  HttpTransport http;
  const auto second = std::make_shared<Recorder>();
  const auto first = std::make_shared<Recorder>();
  first->on_end = [&](const HttpEnd&) { http.Send(Get(server.Url("/echo/2")), second); };
  http.Send(Get(server.Url("/echo/1")), first);
  first->Wait();
  EXPECT_THAT(second->Wait().body, HasSubstr("/echo/2"));
}

TEST(HttpSend, TheHandlerIsReleasedAfterItsEnd) {
  const Loopback server;
  HttpTransport http;
  auto recorder = std::make_shared<Recorder>();
  const std::weak_ptr<Recorder> watch = recorder;
  std::promise<bool> alive;
  recorder->on_end = [&](const HttpEnd&) { alive.set_value(!watch.expired()); };
  http.Send(Get(server.Url("/echo")), recorder);
  recorder.reset();
  EXPECT_TRUE(Await(alive.get_future()));
  std::promise<void> later;
  http.Post([&] { later.set_value(); });
  Await(later.get_future());
  EXPECT_TRUE(watch.expired());
}

TEST(HttpSend, ItsSocketsAreNotLeftToStartedPrograms) {
  const Loopback server;
  HttpTransport http;
  const auto recorder = std::make_shared<Recorder>();
  const int64_t id = http.Send(Get(server.Url("/silent")), recorder);
  Ask(server, "hit/1/silent");
  int found = 0;
  for (int file = 0; file < 1024; ++file) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != server.port()) continue;
    ++found;
    EXPECT_NE(fcntl(file, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 1);
  http.Cancel(id);
  recorder->Wait();
}

TEST(HttpDestructor, CancelsWhatIsInFlight) {
  const Loopback server;
  std::vector<std::shared_ptr<Recorder>> recorders;
  {
    HttpTransport http;
    for (int i = 0; i < 10; ++i) {
      recorders.push_back(std::make_shared<Recorder>());
      http.Send(Get(server.Url(i % 2 == 0 ? "/silent" : "/endless/5")), recorders.back());
    }
    Ask(server, "hit/5/silent");
    Ask(server, "hit/5/endless");
    // One that never begins.
    recorders.push_back(std::make_shared<Recorder>());
    http.Send(Get(server.Url("/silent/late")), recorders.back());
  }
  for (const auto& recorder : recorders) EXPECT_EQ(recorder->Wait().error_class(), "cancelled");
  Ask(server, "gone/5/silent");
  Ask(server, "gone/5/endless");
}

TEST(HttpDestructor, EndsAlsoWhatTheEndsAskFor) {
  const Loopback server;
  const auto again = std::make_shared<Recorder>();
  const auto recorder = std::make_shared<Recorder>();
  {
    HttpTransport http;
    recorder->on_end = [&](const HttpEnd&) { http.Send(Get(server.Url("/silent")), again); };
    http.Send(Get(server.Url("/silent")), recorder);
    Ask(server, "hit/1/silent");
  }
  EXPECT_EQ(recorder->Wait().error_class(), "cancelled");
  EXPECT_EQ(again->Wait().error_class(), "cancelled");
}

TEST(HttpDestructor, DropsClosuresWithoutRunningThem) {
  const Loopback server;
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  bool ran = false;  // the transport's thread's until it is joined
  const auto recorder = std::make_shared<Recorder>();
  {
    HttpTransport http;
    // By the time a request ends as cancelled, the transport is being destroyed.
    recorder->on_end = [&, held = std::move(token)](const HttpEnd&) {
      http.Post([&ran, held] { ran = true; });
      http.After(0, [&ran, held] { ran = true; });
    };
    http.After(3600, [&ran, held = watch.lock()] { ran = true; });
    http.Send(Get(server.Url("/silent")), recorder);
    Ask(server, "hit/1/silent");
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_EQ(recorder->Wait().error_class(), "cancelled");
  recorder->on_end = nullptr;
  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(ran);
}

TEST(HttpDestructor, OfATransportThatWasNeverUsed) { const HttpTransport http; }

TEST(HttpClosures, RunOnOneThreadInOrder) {
  HttpTransport http;
  std::vector<std::string> order;  // the transport's thread's
  std::vector<std::thread::id> threads;
  std::promise<void> done;
  const auto note = [&](const char* name) {
    return [&, name] {
      order.emplace_back(name);
      threads.push_back(std::this_thread::get_id());
    };
  };
  http.Post([&] {
    http.After(0.06, [&] {
      note("last")();
      done.set_value();
    });
    http.After(0.03, note("third"));
    http.After(0.03, note("fourth"));
    http.After(-1, note("second"));  // at once, but not within the call
    note("first")();
  });
  Await(done.get_future());
  EXPECT_THAT(order, ElementsAre("first", "second", "third", "fourth", "last"));
  for (const std::thread::id& thread : threads) EXPECT_EQ(thread, threads[0]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(HttpClosures, AreNotEarly) {
  HttpTransport http;
  const auto begin = std::chrono::steady_clock::now();
  std::promise<double> ran;
  http.After(0.05, [&] {
    ran.set_value(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  });
  EXPECT_GE(Await(ran.get_future()), 0.05);
}

TEST(HttpClosures, OneThatPostsItselfLeavesRoomForRequests) {
  const Loopback server;
  std::function<void()> again;  // outlives the thread that runs it
  HttpTransport http;
  again = [&] { http.Post(again); };
  http.Post(again);
  EXPECT_EQ(Fetch(http, Get(server.Url("/echo"))).head.status, 200);
}

}  // namespace
}  // namespace kernel_evolve::testing
