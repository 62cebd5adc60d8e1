#include "core/worker/supervisor.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

using Clock = Supervisor::Clock;

constexpr size_t kMaxLine = size_t{64} << 20U;
constexpr size_t kKeptErrors = 8 << 10;
constexpr size_t kChunk = 256 << 10;
// For the streams of a process that was killed to close.
constexpr std::chrono::seconds kKillGrace{3};

Clock::duration Seconds(double seconds) {
  constexpr double kLongest = 1e8;  // three years; more overflows the clock
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongest)));
}

Json PathList(const std::vector<std::filesystem::path>& paths) {
  Json list = Json::Arr();
  for (const auto& path : paths) list.push_back(Json(path.string()));
  return list;
}

Json CallMessage(int64_t id, const WorkerCall& call) {
  return Json::Obj({{"op", "call"},
                    {"id", id},
                    {"module", call.module},
                    {"function", call.function},
                    {"path", PathList(call.path)},
                    {"readable", PathList(call.readable)},
                    {"request", call.request.is_null() ? Json::Obj() : call.request},
                    {"deadline_s", call.deadline_s},
                    {"session", call.session.empty() ? Json() : Json(call.session)},
                    {"scratch", call.scratch.string()},
                    {"limits", call.limits.is_null() ? Json::Obj() : call.limits}});
}

Error ErrorOf(const Json& message) {
  const std::string name = message.Text("class");
  const ErrorClass error_class = ParseErrorClass(name).value_or(ErrorClass::kInternal);
  const std::string text = message.Text("message", "the worker reported an error without a word");
  if (error_class == ErrorClass::kUnavailable) return MissingEnvironment(text);
  if (error_class == ErrorClass::kValidation) return BadInput(text);
  return Failed(error_class, text);
}

Error Cancelled() { return Failed(ErrorClass::kCancelled, "the call was cancelled"); }

}  // namespace

void Supervisor::Add(int64_t id, WorkerCall call, Worker::Done done, Worker::Progress progress) {
  OpenCall open{std::move(call), std::move(done), std::move(progress), false, std::nullopt};
  if (!open.call.session.empty()) sessions_[open.call.session].push_back(id);
  open_.emplace(id, std::move(open));
}

void Supervisor::Cancel(int64_t id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  if (!found->second.written) return Finish(id, Cancelled());
  Write(Json::Obj({{"op", "cancel"}, {"id", id}}));
  const auto due = Clock::now() + Seconds(options_.grace_s);
  found->second.due = std::min(found->second.due.value_or(due), due);
}

void Supervisor::CloseSession(const std::string& session) {
  if (state_ != State::kReady) return;
  Write(Json::Obj({{"op", "close_session"}, {"session", session}}));
}

void Supervisor::Turn(int wake_fd) {
  if (state_ == State::kDown && !open_.empty()) StartProcess();
  if (state_ == State::kReady) WriteCalls();
  std::array<pollfd, 4> polled = {pollfd{wake_fd, POLLIN, 0}, pollfd{process_.out(), POLLIN, 0},
                                  pollfd{process_.err(), POLLIN, 0},
                                  pollfd{sent_ < unsent_.size() ? process_.in() : -1, POLLOUT, 0}};
  if (poll(polled.data(), polled.size(), WaitMs()) < 0) return;
  if (polled[3].revents != 0) OnWritable();
  if (polled[2].revents != 0) OnErrors();
  if (polled[1].revents != 0) OnOutput();
  OnTime();
}

// ---- starting -----------------------------------------------------------------------------------

void Supervisor::StartProcess() {
  ProcessSpec spec;
  spec.argv = options_.launch_prefix;
  const std::filesystem::path main = options_.worker_dir / "kernel_evolve_worker" / "__main__.py";
  // -I: neither the current folder, nor PYTHONPATH, nor the user's packages bring in other code.
  for (const std::string& word :
       {options_.python.string(), std::string("-I"), main.string(), std::string("--jail"),
        options_.jail_library.string(), std::string("--isolation"), options_.isolation}) {
    spec.argv.push_back(word);
  }
  spec.environment = WorkerEnvironment(!options_.launch_prefix.empty());
  Result<Process> started = Process::Start(spec);
  if (!started) return FailAll(started.error());
  Reset();
  process_ = std::move(started).value();
  state_ = State::kStarting;
  start_due_ = Clock::now() + Seconds(options_.start_timeout_s);
}

void Supervisor::OnReady(Json message) {
  state_ = State::kReady;
  ready_ = std::move(message);
  ready_.object().erase("op");
}

void Supervisor::WriteCalls() {
  std::vector<int64_t> unfit;
  for (auto& [id, open] : open_) {
    if (open.written) continue;
    std::string line = CallMessage(id, open.call).Dump();
    if (line.size() >= kMaxLine) {
      unfit.push_back(id);
      continue;
    }
    unsent_ += line;
    unsent_ += '\n';
    open.written = true;
    open.call.request = Json();
    const std::string& session = open.call.session;
    if (session.empty() || sessions_[session].front() == id) StartClock(&open);
  }
  for (int64_t id : unfit) {
    Finish(id, BadInput("the request of the worker call is longer than 64 MiB; put the data into a "
                        "file in the scratch folder"));
  }
}

void Supervisor::Write(const Json& message) {
  unsent_ += message.Dump();
  unsent_ += '\n';
}

void Supervisor::StartClock(OpenCall* open) const {
  const auto due = Clock::now() + Seconds(open->call.deadline_s + options_.grace_s);
  open->due = std::min(open->due.value_or(due), due);
}

// ---- the process --------------------------------------------------------------------------------

int Supervisor::WaitMs() const {
  std::optional<Clock::time_point> due;
  if (state_ == State::kStarting) due = start_due_;
  for (const auto& [id, open] : open_) {
    if (open.due) due = std::min(due.value_or(*open.due), *open.due);
  }
  if (!due) return -1;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(*due - Clock::now()).count() + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void Supervisor::OnWritable() {
  while (sent_ < unsent_.size()) {
    const ssize_t length = write(process_.in(), unsent_.data() + sent_, unsent_.size() - sent_);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0) {  // it has gone; the end of its stdout says so
      process_.CloseIn();
      break;
    }
    sent_ += static_cast<size_t>(length);
  }
  unsent_.clear();
  sent_ = 0;
}

void Supervisor::OnErrors() {
  std::array<char, 4096> buffer;
  const ssize_t length = read(process_.err(), buffer.data(), buffer.size());
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) return process_.CloseErr();
  errors_.append(buffer.data(), static_cast<size_t>(length));
  if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
}

void Supervisor::OnOutput() {
  std::string buffer(kChunk, '\0');
  const ssize_t length = read(process_.out(), buffer.data(), buffer.size());
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) return OnExit();
  buffer.resize(static_cast<size_t>(length));
  const size_t end = buffer.rfind('\n');
  std::string lines;
  if (end == std::string::npos) {
    received_ += buffer;
  } else {
    lines = std::exchange(received_, buffer.substr(end + 1));
    lines.append(buffer, 0, end + 1);
  }
  if (received_.size() > kMaxLine) {
    return GiveUp(Failed(ErrorClass::kInvalidOutput,
                         "the Python worker sent a line longer than 64 MiB and was ended"));
  }
  const pid_t pid = process_.pid();
  for (size_t at = 0; at < lines.size() && process_.pid() == pid;) {
    const size_t next = lines.find('\n', at);
    OnLine(std::string_view(lines).substr(at, next - at));
    at = next + 1;
  }
}

void Supervisor::OnLine(std::string_view line) {
  Result<Json> message = Json::Parse(line);
  if (!message || !message->is_object()) {
    // A launch prefix may greet; the zygote itself writes nothing but the protocol.
    Log(LogLevel::kWarning,
        "the worker wrote a line that is no message: " + std::string(line.substr(0, 200)));
    return;
  }
  const std::string op = message->Text("op");
  const int64_t id = message->Integer("id", -1);
  if (op == "ready" && state_ == State::kStarting) return OnReady(std::move(message).value());
  if (op == "fatal") return GiveUp(ErrorOf(*message));
  const auto found = open_.find(id);
  if (found == open_.end() || !found->second.written) return;
  if (op == "progress") {
    if (found->second.progress) found->second.progress((*message)["data"]);
  } else if (op == "result") {
    OnResult(id, *message);
  } else if (op == "error") {
    OnError(id, *message);
  }
}

void Supervisor::OnResult(int64_t id, const Json& message) {
  if (!message["value"].is_object()) {
    return Finish(id, Failed(ErrorClass::kInvalidOutput, "the worker's answer is not an object"));
  }
  WorkerReply reply;
  reply.value = message["value"];
  reply.isolation = message["isolation"];
  reply.seconds = message.Number("seconds");
  reply.peak_kb = message.Integer("peak_kb");
  Finish(id, std::move(reply));
}

void Supervisor::OnError(int64_t id, const Json& message) {
  const std::string output = message.Text("output");
  if (!output.empty()) Log(LogLevel::kInfo, "a worker's child printed: " + output);
  Finish(id, ErrorOf(message));
}

void Supervisor::OnTime() {
  const auto now = Clock::now();
  if (state_ == State::kStarting && now >= start_due_) {
    return GiveUp(MissingEnvironment(
        "the Python worker did not come up within " + FormatSeconds(options_.start_timeout_s) +
        " (" + options_.python.string() + "); see whether `import torch, triton` works there"));
  }
  for (const auto& [id, open] : open_) {
    if (!open.due || now < *open.due) continue;
    const int64_t late = id;
    Finish(late, Failed(ErrorClass::kTimeout, "the call did not end within " +
                                                  FormatSeconds(open.call.deadline_s) +
                                                  " and the Python worker did not end it"));
    return GiveUp(MissingEnvironment("the Python worker stopped answering and was ended"));
  }
}

// stdout has ended: the process has, or as good as.
void Supervisor::OnExit() {
  const State state = state_;
  // What it wrote last says why; the status comes a moment after the streams.
  DrainUntil(Clock::now() + kKillGrace);
  process_.Signal(SIGKILL);
  const int status = process_.Wait();
  const std::string words = LastWords();
  const std::string why = DescribeWaitStatus(status) + (words.empty() ? "" : ": " + words);
  Reset();
  FailAll(MissingEnvironment(state == State::kStarting
                                 ? "the Python worker (" + options_.python.string() +
                                       ") did not come up: it " + why
                                 : "the Python worker ended during the call: it " + why));
}

// ---- ending -------------------------------------------------------------------------------------

void Supervisor::Finish(int64_t id, Result<WorkerReply> reply) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  OpenCall open = std::move(found->second);
  open_.erase(found);
  if (!open.call.session.empty()) StartNextClock(open.call.session, id);
  if (open.done) open.done(std::move(reply));
}

void Supervisor::StartNextClock(const std::string& session, int64_t finished) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  std::deque<int64_t>& queue = found->second;
  queue.erase(std::remove(queue.begin(), queue.end(), finished), queue.end());
  if (queue.empty()) {
    sessions_.erase(found);
    return;
  }
  const auto next = open_.find(queue.front());
  if (next != open_.end() && next->second.written && !next->second.due) StartClock(&next->second);
}

void Supervisor::FailAll(const Error& error) {
  std::map<int64_t, OpenCall> ended = std::exchange(open_, {});
  sessions_.clear();
  for (auto& [id, open] : ended) {
    if (open.done) open.done(error);
  }
}

void Supervisor::GiveUp(const Error& error) {
  process_.Signal(SIGKILL);
  DrainUntil(Clock::now() + kKillGrace);
  Reset();
  FailAll(error);
}

void Supervisor::Shutdown() {
  StopProcess();
  FailAll(Failed(ErrorClass::kCancelled, "the worker was shut down"));
}

void Supervisor::StopProcess() {
  if (!process_.started()) return;
  process_.CloseIn();
  // While it still imports it has no children and does not listen.
  if (state_ == State::kStarting) process_.Signal(SIGTERM);
  if (!DrainUntil(Clock::now() + Seconds(options_.grace_s))) {
    process_.Signal(SIGKILL);
    DrainUntil(Clock::now() + kKillGrace);
  }
  Reset();
}

bool Supervisor::DrainUntil(Clock::time_point end) {
  // The supervisors of the children hold its stderr: when that ends, they have ended too.
  std::array<char, 4096> buffer;
  while (process_.out() >= 0 || process_.err() >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> polled = {pollfd{process_.out(), POLLIN, 0},
                                    pollfd{process_.err(), POLLIN, 0}};
    if (poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[1].revents != 0) OnErrors();
    if (polled[0].revents == 0) continue;
    const ssize_t length = read(process_.out(), buffer.data(), buffer.size());
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) process_.CloseOut();
  }
  return true;
}

std::string Supervisor::LastWords() const {
  const std::vector<std::string> lines = Split(Trim(errors_), '\n');
  return lines.empty() ? "" : std::string(Trim(lines.back()).substr(0, 300));
}

void Supervisor::Reset() {
  process_ = Process();  // kills and reaps what is left
  state_ = State::kDown;
  ready_ = Json();
  unsent_.clear();
  sent_ = 0;
  received_.clear();
  errors_.clear();
}

}  // namespace kernel_evolve
