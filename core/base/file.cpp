#include "core/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kernel_evolve {
namespace {

std::string Cause() { return std::strerror(errno); }

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool Close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

Status WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return MissingEnvironment(Cause());
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return {};
}

}  // namespace

Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes) {
  // O_NONBLOCK: a named pipe must not hang us before it is refused.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return BadInput("cannot read " + path.string() + ": " + Cause());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return BadInput("cannot read " + path.string() + ": " + Cause());
  }
  if (S_ISDIR(info.st_mode)) return BadInput(path.string() + " is a folder, not a file");
  if (!S_ISREG(info.st_mode)) return BadInput(path.string() + " is not a regular file");
  const std::string limit = std::to_string(max_bytes >> 10U) + " KiB";
  if (static_cast<size_t>(info.st_size) > max_bytes) {
    return BadInput(path.string() + " is larger than " + limit);
  }
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return BadInput("cannot read " + path.string() + ": " + Cause());
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > max_bytes) return BadInput(path.string() + " is larger than " + limit);
  }
}

Status WriteFileAtomically(const std::filesystem::path& path, std::string_view text) {
  const std::string target = path.string();
  const std::string draft = target + ".new." + std::to_string(::getpid());
  Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return MissingEnvironment("cannot write " + target + ": " + Cause());
  Status wrote = WriteAll(file.get(), text);
  if (wrote.ok() && ::fsync(file.get()) != 0) wrote = MissingEnvironment(Cause());
  if (!file.Close() && wrote.ok()) wrote = MissingEnvironment(Cause());
  if (wrote.ok() && ::rename(draft.c_str(), target.c_str()) != 0)
    wrote = MissingEnvironment(Cause());
  if (wrote.ok()) return {};
  ::unlink(draft.c_str());
  return MissingEnvironment("cannot write " + target + ": " + wrote.error().message);
}

}  // namespace kernel_evolve
