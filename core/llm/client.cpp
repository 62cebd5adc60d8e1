#include "core/llm/client.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/llm/limiter.hpp"
#include "core/llm/retry.hpp"

namespace kernel_evolve {
namespace {

// Of text that a model wrote, shorter secrets than this are not struck out.
constexpr size_t kLeastSecret = 8;
// An error's text is for people: no secret is too short, but for what is in every sentence.
constexpr size_t kLeastSecretInErrors = 4;
constexpr double kProgressEvery = 10;  // seconds

double MonotonicSeconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double UnixSeconds() {
  using Clock = std::chrono::system_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// "https://host:port" of an absolute address: what limits belong to.
std::string OriginOf(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  return url.substr(0, url.find_first_of("/?#", scheme + 3));
}

Json HeadJson(const HttpHead& head) {
  Json headers = Json::Obj();
  for (const auto& [name, value] : head.headers) headers[name] = value;
  return Json::Obj({{"status", head.status}, {"headers", std::move(headers)}});
}

std::string Characters(size_t count) {
  return "receiving: " + std::to_string(count) + " characters";
}

// Whether a codec's events, one JSON object a line, end with the answer's end.
bool SaysEnd(std::string_view events) {
  while (!events.empty() && events.back() == '\n') events.remove_suffix(1);
  const std::string_view last = events.substr(events.rfind('\n') + 1);
  constexpr size_t kLongest = 64;  // longer ones carry text
  if (last.size() > kLongest || last.find("\"end\"") == std::string_view::npos) return false;
  const Result<Json> event = Json::Parse(last);
  return event.ok() && event->is_object() && event->Text("type") == "end";
}

// An exchange that the transport could not bring to its end.
Failure Unanswered(const HttpEnd& end) {
  return {*end.error, end.lasting ? std::optional<bool>(false) : std::nullopt, std::nullopt};
}

// The request as the codec gets it.
Json Sent(const Json& request, const EndpointOptions& options) {
  Json out = request;
  out.object().erase("context");
  out["sampling"] = MergedSampling(options, request);
  if (!out.contains("stream")) out["stream"] = true;
  return out;
}

}  // namespace

// Everything but Call and Cancel happens on the transport's thread.
class ModelClient::Core {
 public:
  Core() : transport_(new HttpTransport) {}
  ~Core() {
    closing_.store(true);
    // Ends what is in flight; what waits for its turn or for a retry has no request to end it.
    delete transport_;
    auto left = std::move(calls_);
    left.merge(starting_);
    for (auto& [id, exchange] : left) exchange->End(Cancelled());
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  int64_t Begin(ModelCall call, Done done, Progress progress);
  void Cancel(int64_t id) {
    transport_->Post([this, id] {
      const auto found = calls_.find(id);
      if (found != calls_.end()) found->second->Cancel();
    });
  }

 private:
  static Error Cancelled() {
    return Failed(ErrorClass::kCancelled, "the model call was cancelled");
  }

  // One call through all of its attempts. Shared by the table and by the transport while a request
  // is in flight.
  class Exchange : public HttpHandler, public std::enable_shared_from_this<Exchange> {
   public:
    Exchange(Core& core, int64_t id, ModelCall call, Done done, Progress progress)
        : core_(core),
          id_(id),
          call_(std::move(call)),
          done_(std::move(done)),
          progress_(std::move(progress)),
          began_s_(MonotonicSeconds()),
          idle_since_s_(began_s_) {}

    void Start();
    void Send();
    void Cancel();
    void End(Result<Json> response);

    void OnHead(const HttpHead& head) override;
    void OnBytes(std::string_view bytes) override;
    void OnEnd(const HttpEnd& end) override;

   private:
    std::optional<Failure> Decode(const HttpEnd& end, Json* response);
    void Retry(const Failure& failure);
    void Queue();

    Core& core_;
    const int64_t id_;
    ModelCall call_;
    Done done_;
    Progress progress_;
    EncodedRequest request_;
    std::string origin_;
    int64_t sent_ = 0;      // the transport's number while a request is in flight
    bool waiting_ = false;  // in the limiter's queue
    bool cancelled_ = false;
    bool enough_ = false;  // the codec saw the answer's end: the connection's is not waited for
    std::optional<Error> broken_;  // the codec failed
    std::optional<double> retry_after_s_;
    size_t received_ = 0;
    int64_t pieces_ = 0;  // arrivals that completed at least one event
    // For the report.
    const double began_s_;
    double idle_since_s_;
    double waited_s_ = 0;
    double first_byte_s_ = 0;
    double progress_s_ = 0;
    int attempt_ = 0;
    int status_ = 0;
    Json failures_ = Json::Obj();
  };

  void Pump();

  std::atomic<int64_t> last_id_{0};
  std::atomic<bool> closing_{false};
  Limiter limiter_;
  double pump_at_s_ = std::numeric_limits<double>::infinity();
  std::map<int64_t, std::shared_ptr<Exchange>> calls_;
  std::mutex starting_mutex_;
  std::map<int64_t, std::shared_ptr<Exchange>> starting_;  // not yet seen by the thread
  // Owned. Not a unique_ptr, which would be null while the transport's thread ends and still asks
  // for it.
  HttpTransport* const transport_;
};

void ModelClient::Core::Exchange::Start() {
  Result<EncodedRequest> encoded = call_.codec->Encode(Sent(call_.request, call_.options));
  if (!encoded) return End(encoded.error());
  request_ = std::move(*encoded);
  for (std::string* text : {&request_.url, &call_.options.http.proxy}) {
    Result<std::string> expanded = call_.secrets.Expand(*text);
    if (!expanded) return End(expanded.error());
    *text = std::move(*expanded);
  }
  for (auto& [name, value] : request_.headers) {
    Result<std::string> expanded = call_.secrets.Expand(value);
    if (!expanded) return End(expanded.error());
    value = std::move(*expanded);
  }
  origin_ = OriginOf(request_.url);
  Queue();
}

void ModelClient::Core::Exchange::Queue() {
  waiting_ = true;
  core_.limiter_.Enqueue(origin_, id_, call_.options.limits);
  core_.Pump();
}

void ModelClient::Core::Exchange::Send() {
  waiting_ = false;
  waited_s_ += MonotonicSeconds() - idle_since_s_;
  ++attempt_;
  enough_ = false;
  broken_.reset();
  retry_after_s_.reset();
  status_ = 0;
  received_ = 0;
  pieces_ = 0;
  progress_s_ = MonotonicSeconds();
  HttpRequest request;
  request.method = request_.method;
  request.url = request_.url;
  request.headers = request_.headers;
  request.body = request_.body;
  request.options = call_.options.http;
  sent_ = core_.transport_->Send(std::move(request), shared_from_this());
}

void ModelClient::Core::Exchange::OnHead(const HttpHead& head) {
  status_ = head.status;
  retry_after_s_ = RetryAfter(head.headers, UnixSeconds());
  if (Status begun = call_.codec->Begin(HeadJson(head)); !begun.ok()) broken_ = begun.error();
}

void ModelClient::Core::Exchange::OnBytes(std::string_view bytes) {
  if (broken_ || enough_) return;
  std::string events;
  if (Status fed = call_.codec->Feed(bytes, &events); !fed.ok()) {
    broken_ = fed.error();
  }
  if (!events.empty()) ++pieces_;
  enough_ = SaysEnd(events);
  // Neither waits for a server that keeps the connection open after its last word.
  if (broken_ || enough_) return core_.transport_->Cancel(sent_);
  received_ += events.size();
  const double now = MonotonicSeconds();
  if (progress_ && now - progress_s_ >= kProgressEvery && received_ > 0) {
    progress_s_ = now;
    progress_(Json::Obj({{"text", Characters(received_)}}));
  }
}

std::optional<Failure> ModelClient::Core::Exchange::Decode(const HttpEnd& end, Json* response) {
  if (broken_) return Failure{*broken_, false, std::nullopt};
  const bool complete = !end.error || enough_;
  if (status_ == 0 && end.error) return Unanswered(end);
  Result<Json> outcome = call_.codec->Finish(complete);
  if (!outcome) return Failure{outcome.error(), false, std::nullopt};
  if (outcome->contains("response")) {
    *response = std::move((*outcome)["response"]);
    return std::nullopt;
  }
  // Where the transport knows why the body broke off, the codec's complaint says less.
  if (!complete && status_ < 400) return Unanswered(end);
  const Json& error = (*outcome)["error"];
  const ErrorClass error_class =
      ParseErrorClass(error.Text("class")).value_or(ErrorClass::kInternal);
  Failure failure{Failed(error_class, error.Text("message")), std::nullopt, retry_after_s_};
  if (error["retry"].is_bool()) failure.retry = error["retry"].boolean();
  if (error["retry_after_s"].is_number()) failure.retry_after_s = error["retry_after_s"].number();
  return failure;
}

void ModelClient::Core::Exchange::OnEnd(const HttpEnd& end) {
  sent_ = 0;
  first_byte_s_ = end.first_byte_s;
  idle_since_s_ = MonotonicSeconds();
  core_.limiter_.Release(origin_);
  const auto self = shared_from_this();
  if (cancelled_ || core_.closing_.load()) return End(Cancelled());
  Json response;
  const std::optional<Failure> failure = Decode(end, &response);
  if (failure) {
    Retry(*failure);
  } else {
    End(std::move(response));
  }
  core_.Pump();
}

void ModelClient::Core::Exchange::Retry(const Failure& failure) {
  const std::string kind =
      status_ >= 400 ? std::to_string(status_) : ErrorClassName(failure.error.error_class);
  failures_[kind] = failures_[kind].is_integer() ? failures_[kind].integer() + 1 : 1;
  const RetryDecision decision =
      DecideRetry(call_.options.retry, failure, attempt_, static_cast<uint64_t>(id_) * 1000003U);
  if (!decision.wait_s) return End(decision.error);
  // A service that is overloaded is so for every call.
  const bool everyone =
      failure.retry_after_s.has_value() && failure.error.error_class == ErrorClass::kRateLimit;
  if (everyone) core_.limiter_.Pause(origin_, MonotonicSeconds() + *decision.wait_s);
  if (progress_) {
    progress_(Json::Obj(
        {{"text", "attempt " + std::to_string(attempt_) + " failed, trying again: " +
                      call_.secrets.StrikeText(failure.error.message, kLeastSecretInErrors)}}));
  }
  core_.transport_->After(*decision.wait_s, [self = shared_from_this()] {
    if (!self->cancelled_ && self->done_) self->Queue();
  });
}

void ModelClient::Core::Exchange::Cancel() {
  cancelled_ = true;
  if (sent_ != 0) return core_.transport_->Cancel(sent_);  // OnEnd follows
  if (waiting_) core_.limiter_.Remove(origin_, id_);
  End(Cancelled());
}

void ModelClient::Core::Exchange::End(Result<Json> response) {
  if (!done_) return;
  const Done done = std::exchange(done_, nullptr);
  const double now = MonotonicSeconds();
  if (response) {
    response = call_.secrets.Strike(*response, kLeastSecret);
  } else {
    Error error = response.error();
    error.message = call_.secrets.StrikeText(std::move(error.message), kLeastSecretInErrors);
    response = std::move(error);
  }
  Json report = Json::Obj({{"attempts", attempt_},
                           {"seconds", now - began_s_},
                           {"waited_s", waited_s_},
                           {"first_byte_s", first_byte_s_},
                           {"status", status_},
                           {"pieces", pieces_},
                           {"failures", failures_}});
  const auto self = shared_from_this();
  core_.calls_.erase(id_);
  call_.codec.reset();
  done(ModelReply{std::move(response), std::move(report)});
}

int64_t ModelClient::Core::Begin(ModelCall call, Done done, Progress progress) {
  const int64_t id = ++last_id_;
  const auto exchange =
      std::make_shared<Exchange>(*this, id, std::move(call), std::move(done), std::move(progress));
  {
    const std::lock_guard<std::mutex> lock(starting_mutex_);
    starting_[id] = exchange;
  }
  transport_->Post([this, id] {
    std::unique_lock<std::mutex> lock(starting_mutex_);
    const std::shared_ptr<Exchange> begun = starting_.extract(id).mapped();
    lock.unlock();
    calls_[id] = begun;
    begun->Start();
  });
  return id;
}

// Sends whatever may go now, and comes back when the clock alone lets the next one go.
void ModelClient::Core::Pump() {
  if (closing_.load()) return;
  const double now = MonotonicSeconds();
  double next_s = 0;
  for (const int64_t id : limiter_.Admit(now, &next_s)) {
    const auto found = calls_.find(id);
    if (found != calls_.end()) found->second->Send();
  }
  const bool sooner = next_s < pump_at_s_ || pump_at_s_ <= now;
  if (next_s == std::numeric_limits<double>::infinity() || !sooner) return;
  pump_at_s_ = next_s;
  transport_->After(next_s - now, [this] { Pump(); });
}

ModelClient::ModelClient() : core_(std::make_unique<Core>()) {}
ModelClient::~ModelClient() = default;

int64_t ModelClient::Call(ModelCall call, Done done, Progress progress) {
  return core_->Begin(std::move(call), std::move(done), std::move(progress));
}

void ModelClient::Cancel(int64_t call) { core_->Cancel(call); }

}  // namespace kernel_evolve
