#include "core/llm/http.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "core/llm/curl_library.hpp"
#include "core/llm/http_error.hpp"
#include "core/llm/http_poller.hpp"
#include "core/llm/http_transfer.hpp"

namespace kernel_evolve {
namespace {

using Clock = HttpTransfer::Clock;
using Closure = std::function<void()>;

// Connections kept, in use or not. A thousand requests leave a thousand.
constexpr long kMaxConnections = 2048;
// Handles kept for the next requests; a fresh one costs about a tenth of a small request's CPU
// time.
constexpr size_t kSpareHandles = 256;

// Signals are for the program's own threads, but for those that tell of a crash in this one.
// SIGPIPE is blocked with the others: a write to a connection that the server has closed then
// fails, which is all it should do.
void BlockSignals() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&blocked, own);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

}  // namespace

// The thread and what it owns. Begin, Cancel, Post and After only put something on `inbox_`.
class HttpTransport::Loop {
 public:
  Loop() = default;
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  int64_t Send(HttpRequest request, std::shared_ptr<HttpHandler> handler);
  void Cancel(int64_t id);
  void Post(Closure closure) { Put({0, nullptr, std::move(closure), std::nullopt}); }
  void After(double seconds, Closure closure);

 private:
  // One of: a request to begin, a closure to run at once or later, a request to cancel.
  struct Letter {
    int64_t cancel = 0;
    std::unique_ptr<HttpTransfer> begin;
    Closure closure;
    std::optional<Clock::time_point> at;
  };

  struct Flight {
    std::unique_ptr<HttpTransfer> transfer;
    Clock::time_point look_at;  // its place in idle_
  };

  void Put(Letter letter);
  bool OnThread() const { return std::this_thread::get_id() == thread_id_.load(); }

  // The rest is the thread's.
  void Run();
  bool RunInbox();
  void RunTimers();
  void EndIdle();
  void Drive();
  void Collect();
  void Wait();
  int WaitMilliseconds();
  void Close();

  std::optional<Error> Open();
  void Begin(std::unique_ptr<HttpTransfer> transfer);
  void End(int64_t id, HttpEnd end);
  CURL* TakeHandle();

  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int OnTimer(CURLM* multi, long milliseconds, void* self);

  std::atomic<int64_t> last_id_{0};
  std::mutex mutex_;
  std::vector<Letter> inbox_;  // guarded by mutex_, as are the next two
  bool closing_ = false;
  // Asked for, the letter not yet read: an answer that becomes whole meanwhile comes too late.
  std::unordered_set<int64_t> cancelled_;
  std::thread thread_;  // begun by the first letter, under mutex_
  std::atomic<std::thread::id> thread_id_{};
  Poller poller_;

  const CurlLibrary* curl_ = nullptr;
  CURLM* multi_ = nullptr;
  std::vector<CURL*> spare_;
  std::unordered_map<int64_t, Flight> flights_;
  // When to look whether a request is idle. Moved only when looked at: bytes arrive more often.
  std::set<std::pair<Clock::time_point, int64_t>> idle_;
  std::multimap<Clock::time_point, Closure> timers_;  // equal times in order of arrival
  std::optional<Clock::time_point> curl_timer_;
};

HttpTransport::Loop::~Loop() {
  assert(!OnThread());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    if (!thread_.joinable()) return;  // no letter ever came
  }
  poller_.Wake();
  thread_.join();
}

int64_t HttpTransport::Loop::Send(HttpRequest request, std::shared_ptr<HttpHandler> handler) {
  const int64_t id = ++last_id_;
  Put({0, std::make_unique<HttpTransfer>(id, std::move(request), std::move(handler)), nullptr,
       std::nullopt});
  return id;
}

void HttpTransport::Loop::Cancel(int64_t id) {
  // Asked from within a callback: silent at once, ended as soon as libcurl is left.
  if (OnThread()) {
    const auto found = flights_.find(id);
    if (found != flights_.end()) found->second.transfer->Abandon();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_.insert(id);
  }
  Put({id, nullptr, nullptr, std::nullopt});
}

void HttpTransport::Loop::After(double seconds, Closure closure) {
  constexpr double kMost = 1e9;  // thirty years: never
  const std::chrono::duration<double> wait(std::isnan(seconds) ? 0
                                                               : std::clamp(seconds, 0.0, kMost));
  Put({0, nullptr, std::move(closure),
       Clock::now() + std::chrono::duration_cast<Clock::duration>(wait)});
}

void HttpTransport::Loop::Put(Letter letter) {
  bool wake = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake = inbox_.empty();
    inbox_.push_back(std::move(letter));
    if (!thread_.joinable() && !closing_) thread_ = std::thread([this] { Run(); });
  }
  // The thread empties the inbox before it waits.
  if (wake && !OnThread()) poller_.Wake();
}

void HttpTransport::Loop::Run() {
  thread_id_.store(std::this_thread::get_id());
  BlockSignals();
  pthread_setname_np(pthread_self(), "http");
  while (RunInbox()) {
    RunTimers();
    EndIdle();
    Drive();
    Collect();
    Wait();
    Collect();
  }
  Close();
}

// False when the transport is being destroyed.
bool HttpTransport::Loop::RunInbox() {
  std::vector<Letter> letters;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return false;
    letters.swap(inbox_);
  }
  for (Letter& letter : letters) {
    if (letter.begin) {
      Begin(std::move(letter.begin));
    } else if (letter.cancel != 0) {
      const auto found = flights_.find(letter.cancel);
      if (found != flights_.end()) End(letter.cancel, found->second.transfer->EndedCancelled());
      const std::lock_guard<std::mutex> lock(mutex_);
      cancelled_.erase(letter.cancel);
    } else if (letter.at) {
      timers_.emplace(*letter.at, std::move(letter.closure));
    } else {
      letter.closure();
      letter.closure = nullptr;  // what it holds goes before the next one runs
    }
  }
  return true;
}

void HttpTransport::Loop::RunTimers() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Closure closure = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    closure();
  }
}

void HttpTransport::Loop::EndIdle() {
  const Clock::time_point now = Clock::now();
  while (!idle_.empty() && idle_.begin()->first <= now) {
    const int64_t id = idle_.begin()->second;
    Flight& flight = flights_.at(id);
    const Clock::time_point due = flight.transfer->IdleDeadline();
    if (due <= now) {
      End(id, flight.transfer->EndedIdle());
      continue;
    }
    idle_.erase(idle_.begin());
    idle_.emplace(due, id);
    flight.look_at = due;
  }
}

void HttpTransport::Loop::Drive() {
  if (!curl_timer_ || *curl_timer_ > Clock::now()) return;
  curl_timer_.reset();
  int running = 0;
  curl_->multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

void HttpTransport::Loop::Collect() {
  if (multi_ == nullptr) return;
  int left = 0;
  while (const CURLMsg* message = curl_->multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    void* transfer = nullptr;
    curl_->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    const auto* const ended = static_cast<HttpTransfer*>(transfer);
    End(ended->id(), ended->EndedBy(message->data.result));
  }
}

int HttpTransport::Loop::WaitMilliseconds() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_ || !inbox_.empty()) return 0;
  }
  std::optional<Clock::time_point> next = curl_timer_;
  const auto consider = [&next](Clock::time_point at) {
    if (!next || at < *next) next = at;
  };
  if (!timers_.empty()) consider(timers_.begin()->first);
  if (!idle_.empty()) consider(idle_.begin()->first);
  if (!next) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  constexpr int64_t kLongest = 3'600'000;
  return static_cast<int>(std::clamp<int64_t>(wait, 0, kLongest));
}

void HttpTransport::Loop::Wait() {
  for (const Poller::Ready& ready : poller_.Wait(WaitMilliseconds())) {
    const int events = (ready.in ? CURL_CSELECT_IN : 0) | (ready.out ? CURL_CSELECT_OUT : 0) |
                       (ready.failed ? CURL_CSELECT_ERR : 0);
    int running = 0;
    curl_->multi_socket_action(multi_, ready.socket, events, &running);
  }
}

// Ends whatever was asked for, also what the ends themselves ask for, and drops the closures.
void HttpTransport::Loop::Close() {
  while (!flights_.empty()) {
    const auto& [id, flight] = *flights_.begin();
    End(id, flight.transfer->EndedCancelled());
  }
  timers_.clear();
  while (true) {
    std::vector<Letter> letters;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      letters.swap(inbox_);
    }
    if (letters.empty()) break;
    for (const Letter& letter : letters) {
      if (letter.begin) letter.begin->handler()->OnEnd(letter.begin->EndedCancelled());
    }
  }
  for (CURL* easy : spare_) curl_->easy_cleanup(easy);
  if (multi_ != nullptr) curl_->multi_cleanup(multi_);
}

// Nothing once the library is there and ready.
std::optional<Error> HttpTransport::Loop::Open() {
  if (multi_ != nullptr) return std::nullopt;
  const Result<CurlLibrary>& curl = CurlLibrary::Get();
  if (!curl) return curl.error();
  if (!poller_.ok()) {
    return MissingEnvironment("too many files are open for requests over HTTP; raise ulimit -n");
  }
  curl_ = &*curl;
  multi_ = curl_->multi_init();
  if (multi_ == nullptr) return MissingEnvironment("no memory is left for requests over HTTP");
  curl_->multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Loop::OnSocket);
  curl_->multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_->multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Loop::OnTimer);
  curl_->multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_->multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_->multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kMaxConnections);
  return std::nullopt;
}

CURL* HttpTransport::Loop::TakeHandle() {
  if (spare_.empty()) return curl_->easy_init();
  CURL* const easy = spare_.back();
  spare_.pop_back();
  return easy;
}

void HttpTransport::Loop::Begin(std::unique_ptr<HttpTransfer> transfer) {
  std::optional<Error> refused = Open();
  CURL* const easy = refused ? nullptr : TakeHandle();
  if (!refused && easy == nullptr) {
    refused = MissingEnvironment("no memory is left for requests over HTTP");
  }
  if (!refused) {
    const Status prepared = transfer->Prepare(*curl_, easy);
    if (!prepared) refused = prepared.error();
  }
  if (refused) {
    if (easy != nullptr) curl_->easy_cleanup(easy);
    transfer->handler()->OnEnd(transfer->EndedUnsent(*std::move(refused)));
    return;
  }
  const int64_t id = transfer->id();
  const Clock::time_point due = transfer->IdleDeadline();
  idle_.emplace(due, id);
  flights_[id] = {std::move(transfer), due};
  curl_->multi_add_handle(multi_, easy);
}

// `end` has been read off the handle before.
void HttpTransport::Loop::End(int64_t id, HttpEnd end) {
  const Flight flight = std::move(flights_.extract(id).mapped());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_.contains(id)) end = flight.transfer->EndedCancelled();
  }
  idle_.erase({flight.look_at, id});
  CURL* const easy = flight.transfer->easy();
  curl_->multi_remove_handle(multi_, easy);
  if (spare_.size() < kSpareHandles) {
    curl_->easy_reset(easy);
    spare_.push_back(easy);
  } else {
    curl_->easy_cleanup(easy);
  }
  flight.transfer->handler()->OnEnd(end);
}

int HttpTransport::Loop::OnSocket(CURL* /*easy*/, curl_socket_t socket, int what, void* self,
                                  void* /*known*/) {
  Poller& poller = static_cast<Loop*>(self)->poller_;
  if (what == CURL_POLL_REMOVE) {
    poller.Forget(socket);
  } else {
    poller.Watch(socket, (what & CURL_POLL_IN) != 0, (what & CURL_POLL_OUT) != 0);
  }
  return 0;
}

int HttpTransport::Loop::OnTimer(CURLM* /*multi*/, long milliseconds, void* self) {
  std::optional<Clock::time_point>& timer = static_cast<Loop*>(self)->curl_timer_;
  timer.reset();
  if (milliseconds >= 0) timer = Clock::now() + std::chrono::milliseconds(milliseconds);
  return 0;
}

HttpTransport::HttpTransport() : loop_(std::make_unique<Loop>()) {}
HttpTransport::~HttpTransport() = default;

int64_t HttpTransport::Send(HttpRequest request, std::shared_ptr<HttpHandler> handler) {
  return loop_->Send(std::move(request), std::move(handler));
}

void HttpTransport::Cancel(int64_t request) { loop_->Cancel(request); }
void HttpTransport::Post(std::function<void()> closure) { loop_->Post(std::move(closure)); }
void HttpTransport::After(double seconds, std::function<void()> closure) {
  loop_->After(seconds, std::move(closure));
}

}  // namespace kernel_evolve
