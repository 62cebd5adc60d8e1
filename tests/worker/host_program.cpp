// A host that makes one call which never ends, says so on stdout, and waits to be killed.
// Arguments: isolation level, mark.
#include <unistd.h>

#include <cstdio>

#include "tests/worker/harness.hpp"

int main(int argc, char** argv) {
  using namespace kernel_evolve;
  if (argc != 3) return 2;
  Worker worker(testing::RealOptions(argv[1]));
  WorkerCall call = testing::CallOf("leave_processes", Json::Obj({{"mark", argv[2]}}), 600);
  call.request["stay"] = true;
  testing::Pending pending(&worker, std::move(call));
  if (!pending.WaitForProgress()) {
    std::fprintf(stderr, "%s\n", testing::Describe(pending.Get()).c_str());
    return 1;
  }
  std::printf("%d\n", static_cast<int>(worker.ready_info().Integer("pid")));
  std::fflush(stdout);
  while (true) pause();
}
