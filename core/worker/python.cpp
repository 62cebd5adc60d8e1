#include "core/worker/python.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "core/base/json.hpp"
#include "core/base/text.hpp"
#include "core/worker/process.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScript = R"(import importlib.metadata as m, json, platform
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return ""
print(json.dumps({"python": platform.python_version(), "torch": version("torch"),
                  "triton": version("triton"), "numpy": version("numpy")})))";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::optional<fs::path> Runnable(const std::string& name) {
  const std::optional<std::string> file = FindProgram(name);
  std::error_code ignored;
  if (!file || !fs::is_regular_file(*file, ignored) || access(file->c_str(), X_OK) != 0) {
    return std::nullopt;
  }
  return fs::absolute(*file, ignored);
}

fs::path UsualPlace() {
  const std::string data = Variable("XDG_DATA_HOME");
  const fs::path base = data.starts_with('/') ? fs::path(data)  // a relative one is to be ignored
                                              : fs::path(Variable("HOME")) / ".local" / "share";
  return base / "kernel-evolve" / "venv" / "bin" / "python";
}

// Adds what is there to *text. False at the end of the stream.
bool ReadSome(int fd, std::string* text) {
  std::array<char, 4096> buffer;
  const ssize_t length = read(fd, buffer.data(), buffer.size());
  if (length > 0 && text->size() < (1U << 20U)) text->append(buffer.data(), length);
  return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

// Collects both streams until they end. False when the time is up.
bool Collect(Process* process, double timeout_s, std::string* out, std::string* err) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_s);
  while (process->out() >= 0 || process->err() >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> polled = {pollfd{process->out(), POLLIN, 0},
                                    pollfd{process->err(), POLLIN, 0}};
    if (poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[0].revents != 0 && !ReadSome(process->out(), out)) process->CloseOut();
    if (polled[1].revents != 0 && !ReadSome(process->err(), err)) process->CloseErr();
  }
  return true;
}

std::string LastLine(const std::string& text) {
  const std::string_view trimmed = Trim(text);
  const size_t at = trimmed.rfind('\n');
  return std::string(at == std::string_view::npos ? trimmed : trimmed.substr(at + 1));
}

}  // namespace

std::string PythonInstallHint() {
  const std::string place = "~/.local/share/kernel-evolve/venv";
  return "type `python3 -m venv " + place + " && " + place + "/bin/pip install torch numpy`";
}

Result<fs::path> FindPython(const std::string& wanted) {
  const std::pair<std::string, const char*> named[] = {
      {wanted, "--python"}, {Variable("KERNEL_EVOLVE_PYTHON"), "KERNEL_EVOLVE_PYTHON"}};
  for (const auto& [name, source] : named) {
    if (name.empty()) continue;
    if (const auto file = Runnable(name)) return *file;
    return MissingEnvironment("the Python interpreter '" + name + "' named by " + source +
                              " is no program; name one that has PyTorch, or " +
                              PythonInstallHint() + " and leave it out");
  }
  if (const auto file = Runnable(UsualPlace().string())) return *file;
  if (const auto file = Runnable("python3")) return *file;
  return MissingEnvironment("no Python interpreter was found; install Python 3.10 or newer and " +
                            PythonInstallHint());
}

Result<PythonInfo> ProbePython(const fs::path& python, double timeout_s) {
  Result<Process> started =
      Process::Start({{python.string(), "-I", "-c", kScript}, WorkerEnvironment(false)});
  if (!started) return started.error();
  Process process = std::move(started).value();
  process.CloseIn();
  std::string out;
  std::string err;
  const bool ended = Collect(&process, timeout_s, &out, &err);
  if (!ended) process.Signal(SIGKILL);
  const int status = process.Wait();
  if (!ended) {
    return MissingEnvironment(python.string() + " did not answer within " +
                              FormatSeconds(timeout_s) + "; name another one with --python");
  }
  const Result<Json> answer = Json::Parse(out);
  if (status != 0 || !answer || !answer->is_object()) {
    const std::string why = LastLine(err);
    return MissingEnvironment(python.string() + " cannot be used as Python (it " +
                              DescribeWaitStatus(status) + (why.empty() ? "" : ": " + why) +
                              "); name another one with --python");
  }
  PythonInfo info{answer->Text("python"), answer->Text("torch"), answer->Text("triton"),
                  answer->Text("numpy")};
  const std::vector<std::string> parts = Split(info.python, '.');
  const int minor = parts.size() > 1 ? std::atoi(parts[1].c_str()) : 0;
  if (parts[0] != "3" || minor < 10) {
    return MissingEnvironment(python.string() + " is Python " + info.python +
                              "; 3.10 or newer is needed, name one with --python");
  }
  return info;
}

}  // namespace kernel_evolve
