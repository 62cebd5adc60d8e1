// Starts tests/loopback/server.py, an HTTP server on 127.0.0.1 that misbehaves on demand, and the
// files for TLS with it. Needs python3 (3.9 or newer) and, for certificates, openssl on the PATH.
// A failure to start is a std::runtime_error: the test that needs the server fails.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kernel_evolve::testing {

class Loopback {
 public:
  // `arguments` are server.py's. Returns once the server listens.
  explicit Loopback(const std::vector<std::string>& arguments = {});
  // Closes the server's standard input and waits for its end.
  ~Loopback();
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  int port() const { return port_; }
  // "http://127.0.0.1:port" + path, or another scheme and name for it.
  std::string Url(const std::string& path, const std::string& scheme = "http",
                  const std::string& name = "127.0.0.1") const;

 private:
  pid_t child_ = -1;
  int stdin_ = -1;
  int stdout_ = -1;
  int port_ = 0;
};

// A port of 127.0.0.1 that is taken, yet where nothing listens: connections are refused.
class DeadPort {
 public:
  DeadPort();
  ~DeadPort();
  DeadPort(const DeadPort&) = delete;
  DeadPort& operator=(const DeadPort&) = delete;

  int port() const { return port_; }

 private:
  int socket_ = -1;
  int port_ = 0;
};

// PEM files in a temporary folder, made anew and removed again: an authority, and what it signed.
class Certificates {
 public:
  Certificates();
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  std::string authority() const { return File("authority.pem"); }
  // For localhost and 127.0.0.1.
  std::string server() const { return File("server.pem"); }
  std::string server_key() const { return File("server.key"); }
  // For other.example.
  std::string stranger() const { return File("stranger.pem"); }
  std::string stranger_key() const { return File("stranger.key"); }
  // For localhost; its time is over.
  std::string expired() const { return File("expired.pem"); }
  std::string expired_key() const { return File("expired.key"); }
  std::string client() const { return File("client.pem"); }
  std::string client_key() const { return File("client.key"); }
  // The client's key again, behind a passphrase.
  std::string locked_key() const { return File("locked.key"); }

  std::filesystem::path folder() const { return folder_; }

 private:
  std::string File(const char* name) const { return (folder_ / name).string(); }
  void Sign(const std::string& name, const std::string& alternative_names);
  void SignExpired();

  std::filesystem::path folder_;
};

}  // namespace kernel_evolve::testing
