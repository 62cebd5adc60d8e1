// A model endpoint for benchmarks: answers every POST with a streamed tool call in the form of Chat
// Completions, in `pieces` events spread evenly over `seconds`. One thread, epoll; it costs little
// beside the clients it is measured with.
//
// usage: sse_server PIECES SECONDS    prints its port on stdout, ends when stdin closes
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::string Chunk(const std::string& json) {
  const std::string event = "data: " + json + "\n\n";
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", event.size());
  return size + event + "\r\n";
}

std::string Delta(const std::string& delta, const char* finish) {
  return Chunk(R"({"id":"c","object":"chat.completion.chunk","created":1,"model":"bench",)"
               R"("choices":[{"index":0,"delta":)" +
               delta + R"(,"finish_reason":)" + finish + "}]}");
}

std::vector<std::string> Reply(int pieces) {
  std::vector<std::string> out;
  out.push_back(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
      Delta(R"({"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1",)"
            R"("type":"function","function":{"name":"submit_kernel","arguments":""}}]})",
            "null"));
  for (int i = 0; i < pieces; ++i) {
    const std::string text = i == 0 ? R"({\"code\": \")" : i + 1 == pieces ? R"(\"})" : "x = 1; ";
    out.push_back(Delta(
        R"({"tool_calls":[{"index":0,"function":{"arguments":")" + text + R"("}}]})", "null"));
  }
  out.push_back(Delta("{}", R"("tool_calls")") +
                Chunk(R"({"id":"c","object":"chat.completion.chunk","created":1,"model":"bench",)"
                      R"("choices":[],"usage":{"prompt_tokens":9,"completion_tokens":50,)"
                      R"("total_tokens":59}})") +
                Chunk("[DONE]") + "0\r\n\r\n");
  return out;
}

struct Connection {
  std::string received;
  size_t next = 0;        // piece to send
  uint64_t exchange = 0;  // a timer of an earlier one is stale
};

class Server {
 public:
  Server(int pieces, double seconds)
      : reply_(Reply(pieces)), gap_(seconds / static_cast<double>(reply_.size())) {}

  void Run() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 4096) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::perror("sse_server");
      std::exit(1);
    }
    std::printf("%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    poll_ = ::epoll_create1(0);
    Watch(listener_);
    Watch(STDIN_FILENO);
    while (Turn()) {
    }
  }

 private:
  struct Timer {
    Clock::time_point at;
    int fd;
    uint64_t exchange;
    bool operator>(const Timer& other) const { return at > other.at; }
  };

  void Watch(int fd) const {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &event);
  }

  bool Turn() {
    int wait_ms = -1;
    if (!timers_.empty()) {
      const auto left = timers_.top().at - Clock::now();
      wait_ms = static_cast<int>(
          std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    epoll_event events[256];
    const int count = ::epoll_wait(poll_, events, 256, wait_ms);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == STDIN_FILENO) return false;
      if (fd == listener_) {
        Accept();
      } else {
        Read(fd);
      }
    }
    while (!timers_.empty() && timers_.top().at <= Clock::now()) {
      const Timer due = timers_.top();
      timers_.pop();
      Send(due);
    }
    return true;
  }

  void Accept() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
      if (fd < 0) return;
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      connections_[fd] = {};
      Watch(fd);
    }
  }

  void Read(int fd) {
    char buffer[16384];
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size <= 0) {
      ::close(fd);
      connections_.erase(fd);
      return;
    }
    Connection& connection = connections_[fd];
    connection.received.append(buffer, static_cast<size_t>(size));
    if (!TakeRequest(&connection.received)) return;
    connection.next = 0;
    connection.exchange = ++exchanges_;
    timers_.push({Clock::now() + Seconds(gap_), fd, connection.exchange});
  }

  // Removes one whole request from the front.
  static bool TakeRequest(std::string* received) {
    const size_t head = received->find("\r\n\r\n");
    if (head == std::string::npos) return false;
    size_t body = 0;
    std::string lower = received->substr(0, head);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (const size_t at = lower.find("content-length:"); at != std::string::npos) {
      body = static_cast<size_t>(std::strtoul(lower.c_str() + at + 15, nullptr, 10));
    }
    if (received->size() < head + 4 + body) return false;
    received->erase(0, head + 4 + body);
    return true;
  }

  void Send(const Timer& due) {
    const auto found = connections_.find(due.fd);
    if (found == connections_.end() || found->second.exchange != due.exchange) return;
    const std::string& piece = reply_[found->second.next++];
    // Small pieces: the socket's buffer takes them whole.
    if (::send(due.fd, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) return;
    if (found->second.next < reply_.size()) {
      timers_.push({due.at + Seconds(gap_), due.fd, due.exchange});
    }
  }

  static Clock::duration Seconds(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  const std::vector<std::string> reply_;
  const double gap_;
  int listener_ = -1;
  int poll_ = -1;
  uint64_t exchanges_ = 0;
  std::unordered_map<int, Connection> connections_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: sse_server PIECES SECONDS\n");
    return 2;
  }
  Server(std::atoi(argv[1]), std::atof(argv[2])).Run();
  return 0;
}
