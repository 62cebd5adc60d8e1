#include "tests/loopback/loopback.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

extern char** environ;

namespace kernel_evolve::testing {
namespace {

constexpr int kDeadline = 60'000;  // milliseconds; for a machine under load

struct Redirection {
  int from;  // ours
  int to;    // the child's
};

pid_t Spawn(const std::vector<std::string>& command, const std::vector<Redirection>& redirections) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const Redirection& redirection : redirections) {
    posix_spawn_file_actions_adddup2(&actions, redirection.from, redirection.to);
  }
  pid_t child = -1;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + command[0] + ": " + strerror(failed));
  return child;
}

int WaitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void Run(const std::vector<std::string>& command) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t child = Spawn(command, {{nothing, 0}, {nothing, 1}, {nothing, 2}});
  ::close(nothing);
  if (WaitFor(child) == 0) return;
  std::string words;
  for (const std::string& word : command) words += " " + word;
  throw std::runtime_error("failed:" + words);
}

// One line; throws when none comes in time.
std::string ReadLine(int file) {
  std::string line;
  while (line.empty() || line.back() != '\n') {
    pollfd waiting{file, POLLIN, 0};
    char byte = 0;
    if (::poll(&waiting, 1, kDeadline) != 1 || ::read(file, &byte, 1) != 1) {
      throw std::runtime_error("the loopback server did not start");
    }
    line += byte;
  }
  return line;
}

}  // namespace

Loopback::Loopback(const std::vector<std::string>& arguments) {
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipes for the loopback server");
  }
  std::vector<std::string> command = {"python3", "-B", LOOPBACK_SERVER};
  command.insert(command.end(), arguments.begin(), arguments.end());
  child_ = Spawn(command, {{in[0], 0}, {out[1], 1}});
  ::close(in[0]);
  ::close(out[1]);
  stdin_ = in[1];
  stdout_ = out[0];
  const std::string line = ReadLine(stdout_);
  port_ = std::atoi(line.c_str() + line.find(':') + 1);
  if (port_ == 0) throw std::runtime_error("the loopback server said: " + line);
}

Loopback::~Loopback() {
  ::close(stdin_);
  // Its output ends with it.
  pollfd waiting{stdout_, POLLIN, 0};
  if (::poll(&waiting, 1, kDeadline) != 1) ::kill(child_, SIGKILL);
  WaitFor(child_);
  ::close(stdout_);
}

std::string Loopback::Url(const std::string& path, const std::string& scheme,
                          const std::string& name) const {
  return scheme + "://" + name + ":" + std::to_string(port_) + path;
}

DeadPort::DeadPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket_, plain, length) != 0 || ::getsockname(socket_, plain, &length) != 0) {
    throw std::runtime_error("no port");
  }
  port_ = ntohs(address.sin_port);
}

DeadPort::~DeadPort() { ::close(socket_); }

Certificates::Certificates() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ke_tls_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
  Run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
       "-days", "2", "-subj", "/CN=test authority", "-keyout", File("authority.key"), "-out",
       authority()});
  Sign("server", "DNS:localhost,IP:127.0.0.1");
  Sign("stranger", "DNS:other.example");
  Sign("client", "DNS:client.example");
  SignExpired();
  Run({"openssl", "pkey", "-in", client_key(), "-aes256", "-passout", "pass:secret", "-out",
       locked_key()});
}

Certificates::~Certificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Certificates::Sign(const std::string& name, const std::string& alternative_names) {
  Run({"openssl",
       "req",
       "-x509",
       "-newkey",
       "ec",
       "-pkeyopt",
       "ec_paramgen_curve:P-256",
       "-nodes",
       "-days",
       "2",
       "-subj",
       "/CN=" + name,
       "-addext",
       "subjectAltName=" + alternative_names,
       "-addext",
       "basicConstraints=critical,CA:FALSE",
       "-CA",
       authority(),
       "-CAkey",
       File("authority.key"),
       "-keyout",
       File((name + ".key").c_str()),
       "-out",
       File((name + ".pem").c_str())});
}

// `openssl req` knows no date in the past; `openssl ca` does, and wants files of its own.
void Certificates::SignExpired() {
  const std::string index = File("ca.index");
  const std::string serial = File("ca.serial");
  const std::string config = File("ca.conf");
  std::ofstream(index).flush();
  std::ofstream(serial) << "01\n";
  std::ofstream(config) << "[ca]\ndefault_ca = test\n[test]\ndatabase = " << index
                        << "\nserial = " << serial << "\nnew_certs_dir = " << folder_.string()
                        << "\ncopy_extensions = copy\ndefault_md = sha256\npolicy = any\n"
                           "[any]\ncommonName = supplied\n";
  Run({"openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
       "-subj", "/CN=expired", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
       expired_key(), "-out", File("expired.csr")});
  Run({"openssl", "ca", "-batch", "-notext", "-config", config, "-cert", authority(), "-keyfile",
       File("authority.key"), "-startdate", "200101000000Z", "-enddate", "200102000000Z", "-in",
       File("expired.csr"), "-out", expired()});
}

}  // namespace kernel_evolve::testing
