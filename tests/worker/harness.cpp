#include "tests/worker/harness.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/worker/python.hpp"

namespace kernel_evolve::testing {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path Source(const std::string& relative) {
  return fs::path(KERNEL_EVOLVE_SOURCE_DIR) / relative;
}

}  // namespace

fs::path PythonWithTorch() {
  const Result<fs::path> python = FindPython();
  const Result<PythonInfo> info =
      python ? ProbePython(*python) : Result<PythonInfo>(python.error());
  if (info && !info->torch.empty() && !info->triton.empty()) return *python;
  std::fprintf(stderr,
               "The worker's tests need a Python with PyTorch and Triton, and %s has none: set "
               "KERNEL_EVOLVE_PYTHON, or %s\n",
               python ? python->c_str() : "this machine", PythonInstallHint().c_str());
  std::exit(1);
}

WorkerOptions RealOptions(const std::string& isolation) {
  static const fs::path python = PythonWithTorch();
  WorkerOptions options;
  options.python = python;
  options.worker_dir = Source("sdk/worker");
  options.jail_library = fs::path(KERNEL_EVOLVE_BUILD_DIR) / "lib/kernel_evolve/libke_jail.so";
  options.isolation = isolation;
  return options;
}

WorkerOptions FakeOptions(const std::string& part, const fs::path& notes) {
  WorkerOptions options;
  options.launch_prefix = {"python3", "-I", Source("tests/worker/python/fake_zygote.py").string(),
                           part, notes.string()};
  options.python = "python";
  options.worker_dir = "/nowhere";
  options.jail_library = "/nowhere.so";
  return options;
}

WorkerCall CallOf(const std::string& function, Json request, double deadline_s) {
  WorkerCall call;
  call.module = "probe_calls";
  call.function = function;
  call.path = {Source("tests/worker/python")};
  call.request = std::move(request);
  call.deadline_s = deadline_s;
  return call;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "worker-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

struct Pending::Shared {
  std::promise<Result<WorkerReply>> answer;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<Json> progress;
};

Pending::Pending(Worker* worker, WorkerCall call) { Make(worker, std::move(call)); }

Pending::Pending(WorkerPool* pool, WorkerCall call) { Make(pool, std::move(call)); }

template <typename Callee>
void Pending::Make(Callee* callee, WorkerCall call) {
  shared_ = std::make_shared<Shared>();
  answer_ = shared_->answer.get_future();
  id_ = callee->Call(
      std::move(call),
      [shared = shared_](Result<WorkerReply> reply) { shared->answer.set_value(std::move(reply)); },
      [shared = shared_](const Json& data) {
        const std::lock_guard lock(shared->mutex);
        shared->progress.push_back(data);
        shared->arrived.notify_all();
      });
}

Result<WorkerReply> Pending::Get() {
  if (answer_.wait_for(std::chrono::duration<double>(kPatienceS)) != std::future_status::ready) {
    return Failed(ErrorClass::kInternal, "the test waited in vain");
  }
  return answer_.get();
}

bool Pending::WaitForProgress() {
  std::unique_lock lock(shared_->mutex);
  return shared_->arrived.wait_for(lock, std::chrono::duration<double>(kPatienceS),
                                   [this] { return !shared_->progress.empty(); });
}

std::vector<Json> Pending::progress() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->progress;
}

Result<WorkerReply> CallAndWait(Worker* worker, WorkerCall call) {
  return Pending(worker, std::move(call)).Get();
}

std::string Describe(const Result<WorkerReply>& result) {
  if (result) return "ok: " + result->value.Dump();
  return std::string(ErrorClassName(result.error().error_class)) + ": " + result.error().message;
}

std::string UniqueMark() {
  static std::atomic<int> counter{0};
  // A process's name holds 15 characters.
  return "km" + std::to_string(getpid() % 1000000) + "x" + std::to_string(++counter) + "x";
}

std::vector<int> ProcessesMarked(const std::string& mark) {
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    if (!ProcessLives(pid)) continue;
    if (ReadAll(entry.path() / "comm").find(mark) != std::string::npos ||
        ReadAll(entry.path() / "cmdline").find(mark) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

bool ProcessLives(int pid) {
  const std::string stat = ReadAll(fs::path("/proc") / std::to_string(pid) / "stat");
  const size_t after = stat.rfind(')');
  return after != std::string::npos && stat.size() > after + 2 && stat[after + 2] != 'Z' &&
         stat[after + 2] != 'X';
}

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatienceS);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace kernel_evolve::testing
