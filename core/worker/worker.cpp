#include "core/worker/worker.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "core/worker/supervisor.hpp"

namespace kernel_evolve {
namespace {

struct Submitted {
  int64_t id;
  WorkerCall call;
  Worker::Done done;
  Worker::Progress progress;
};

struct CancelOrder {
  int64_t id;
};

struct CloseOrder {
  std::string session;
};

using Order = std::variant<Submitted, CancelOrder, CloseOrder>;

}  // namespace

// What callers share with the worker's thread: a queue of orders and the last ready message. All
// the rest is the thread's own, in the Supervisor.
class Worker::Impl {
 public:
  explicit Impl(WorkerOptions options)
      : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
    close(wake_);
  }

  int64_t Submit(WorkerCall call, Done done, Progress progress) {
    int64_t id = 0;
    {
      const std::lock_guard lock(mutex_);
      id = ++last_id_;
      orders_.emplace_back(Submitted{id, std::move(call), std::move(done), std::move(progress)});
      // The process dies with the thread that started it, so one thread does it all.
      if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
    }
    Wake();
    return id;
  }

  void Push(Order order) {
    {
      const std::lock_guard lock(mutex_);
      if (!thread_.joinable()) return;  // no call was ever made
      orders_.push_back(std::move(order));
    }
    Wake();
  }

  Json ready() const {
    const std::lock_guard lock(mutex_);
    return ready_;
  }

 private:
  void Wake() const {
    const uint64_t one = 1;
    ssize_t ignored = write(wake_, &one, sizeof one);
    (void)ignored;  // a full counter wakes as well
  }

  void Run() {
    // Signals are the program's main thread's; a write to a process that has gone is an error here.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    Supervisor supervisor(options_);
    while (TakeOrders(&supervisor)) {
      supervisor.Turn(wake_);
      const std::lock_guard lock(mutex_);
      ready_ = supervisor.ready();
    }
    supervisor.Shutdown();
  }

  // False when the worker is being destroyed; the orders have been taken then too.
  bool TakeOrders(Supervisor* supervisor) {
    uint64_t count = 0;
    ssize_t ignored = read(wake_, &count, sizeof count);
    (void)ignored;
    std::vector<Order> orders;
    bool go_on = true;
    {
      const std::lock_guard lock(mutex_);
      orders.swap(orders_);
      go_on = !stopping_;
    }
    for (Order& order : orders) {
      if (auto* submitted = std::get_if<Submitted>(&order)) {
        supervisor->Add(submitted->id, std::move(submitted->call), std::move(submitted->done),
                        std::move(submitted->progress));
      } else if (const auto* cancel = std::get_if<CancelOrder>(&order)) {
        supervisor->Cancel(cancel->id);
      } else {
        supervisor->CloseSession(std::get<CloseOrder>(order).session);
      }
    }
    return go_on;
  }

  const WorkerOptions options_;
  const int wake_;
  mutable std::mutex mutex_;
  std::vector<Order> orders_;
  int64_t last_id_ = 0;
  bool stopping_ = false;
  Json ready_;
  std::thread thread_;
};

Worker::Worker(WorkerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Worker::~Worker() = default;

int64_t Worker::Call(WorkerCall call, Done done, Progress progress) {
  return impl_->Submit(std::move(call), std::move(done), std::move(progress));
}

void Worker::Cancel(int64_t id) { impl_->Push(CancelOrder{id}); }

void Worker::CloseSession(const std::string& session) { impl_->Push(CloseOrder{session}); }

Json Worker::ready_info() const { return impl_->ready(); }

}  // namespace kernel_evolve
