// What the worker's tests share: a worker of this build, calls that are waited for, and questions
// about the machine's processes.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/worker/pool.hpp"
#include "core/worker/worker.hpp"

namespace kernel_evolve::testing {

// How long something that should happen may take; only a broken program uses it up.
inline constexpr double kPatienceS = 60;

// The interpreter with PyTorch: $KERNEL_EVOLVE_PYTHON, else the usual virtual environment. Ends the
// test program with a sentence when there is none.
std::filesystem::path PythonWithTorch();

// The worker of this source and build tree. isolation: see WorkerOptions.
WorkerOptions RealOptions(const std::string& isolation = "auto");

// fake_zygote.py in place of the zygote, playing the given part.
WorkerOptions FakeOptions(const std::string& part, const std::filesystem::path& notes = "/");

// A call of tests/worker/python/<module>.py.
WorkerCall CallOf(const std::string& function, Json request = Json::Obj(), double deadline_s = 30);

// A folder of its own that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A call that has been made. Get() waits for its answer; a test that waits in vain gets an error of
// class internal that says so.
class Pending {
 public:
  Pending(Worker* worker, WorkerCall call);
  Pending(WorkerPool* pool, WorkerCall call);
  Result<WorkerReply> Get();
  int64_t id() const { return id_; }
  // Waits until a progress message has come; false when the patience is at its end.
  bool WaitForProgress();
  std::vector<Json> progress() const;

 private:
  struct Shared;
  template <typename Callee>
  void Make(Callee* callee, WorkerCall call);

  std::shared_ptr<Shared> shared_;
  std::future<Result<WorkerReply>> answer_;
  int64_t id_ = 0;
};

Result<WorkerReply> CallAndWait(Worker* worker, WorkerCall call);

// "class: message", or "ok: value": one text to compare.
std::string Describe(const Result<WorkerReply>& result);

// A short text that no other process on this machine carries.
std::string UniqueMark();
// The processes whose command line or name has the mark.
std::vector<int> ProcessesMarked(const std::string& mark);
bool ProcessLives(int pid);

// Asks again until the answer is true; false when the patience is at its end.
bool Eventually(const std::function<bool()>& condition);

}  // namespace kernel_evolve::testing
