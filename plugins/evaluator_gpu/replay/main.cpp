// ke_replay: runs launch tapes on a GPU for evaluator_gpu. It speaks one JSON object per line over
// stdin and stdout (REPLAY.md) and shares a range of memory with the process that started it.
//
// usage: ke_replay SHARED_FD SHARED_BYTES DEVICE
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "player.hpp"

namespace kernel_evolve::replay {
namespace {

using nlohmann::json;

constexpr int kUsage = 2;
constexpr int kNoDevice = 3;
constexpr int kFault = 4;  // the device refused; this process can do no more
constexpr int kMostSamples = 100000;
constexpr uint64_t kSharedUnit = 2U << 20U;

// Where answers go. What a kernel prints is written to stdout by the driver, at a time of its
// choosing, and must not be taken for an answer: stdout leads to stderr.
std::FILE* Answers() {
  static std::FILE* const file = [] {
    const int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) std::_Exit(kUsage);
    return ::fdopen(fd, "w");
  }();
  return file;
}

void Say(const json& line) {
  // An error's text may quote bytes that are no UTF-8.
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  (void)std::fwrite(text.data(), 1, text.size(), Answers());
  (void)std::fflush(Answers());
}

SharedMemory Share(const char* fd, const char* bytes) {
  SharedMemory shared;
  shared.bytes = std::strtoull(bytes, nullptr, 10);
  // Kernels can reach it once it is registered: at an address that nobody tells them.
  void* const wish = reinterpret_cast<void*>(DrawnAddress(kSharedUnit));  // NOLINT
  void* const data =
      ::mmap(wish, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, std::atoi(fd), 0);
  if (data == MAP_FAILED) {
    throw BadRequest(std::string("the shared memory cannot be mapped: ") + std::strerror(errno));
  }
  shared.data = static_cast<unsigned char*>(data);
  return shared;
}

unsigned char Poison(const json& byte) {
  const int poison = byte.get<int>();
  if (poison < 0 || poison > 255) throw BadRequest("a poison is no byte");
  return static_cast<unsigned char>(poison);
}

std::vector<std::pair<size_t, uint64_t>> ReadFetch(const json& buffers) {
  std::vector<std::pair<size_t, uint64_t>> out;
  for (const json& item : buffers) {
    out.emplace_back(item.at(0).get<size_t>(), item.at(1).get<uint64_t>());
  }
  return out;
}

Timing ReadTiming(const json& request) {
  Timing timing;
  timing.samples = request.at("samples");
  if (timing.samples < 1 || timing.samples > kMostSamples) throw BadRequest("too many samples");
  if (request.contains("poisons")) {
    timing.poisons.clear();
    for (const json& byte : request["poisons"]) timing.poisons.push_back(Poison(byte));
    if (timing.poisons.empty()) throw BadRequest("there is no poison");
  }
  timing.pause_ns = request.value("pause_ns", timing.pause_ns);
  timing.seed = request.value("seed", timing.seed);
  timing.hashes = request.value("hashes", timing.hashes);
  timing.keep = request.value("keep", timing.samples - 1);
  if (timing.keep < 0 || timing.keep >= timing.samples) throw BadRequest("no such sample to keep");
  if (request.contains("fetch")) timing.fetch = ReadFetch(request["fetch"]);
  return timing;
}

json Answer(Player& player, const json& request, const SharedMemory& shared) {
  const std::string op = request.at("op");
  if (op == "describe") return player.Describe();
  if (op == "load") {
    return {{"kernels", player.Load(ReadPlan(request.at("plan"), shared.bytes), shared)}};
  }
  if (op == "write") {
    for (const json& buffer : request.at("buffers")) player.Write(buffer.get<size_t>(), shared);
    return json::object();
  }
  if (op == "run") {
    const bool guard = request.value("guard", true);
    return player.Run(guard ? Placement::kGuard : Placement::kNatural,
                      Poison(request.value("poison", json(255))),
                      request.value("seed", uint64_t{0}));
  }
  if (op == "fetch") {
    for (const auto& [buffer, offset] : ReadFetch(request.at("buffers"))) {
      player.Fetch(buffer, offset, shared);
    }
    return json::object();
  }
  if (op == "time") {
    return player.Time(ReadTiming(request), shared);
  }
  throw BadRequest("there is no request '" + op + "'");
}

// False after a fault that lasts.
bool Serve(Player& player, const std::string& line, const SharedMemory& shared) {
  try {
    json answer = Answer(player, json::parse(line), shared);
    answer["ok"] = true;
    Say(answer);
  } catch (const Fault& fault) {
    Say({{"ok", false},
         {"kind", "fault"},
         {"step", fault.step()},
         {"code", fault.code()},
         {"message", fault.what()},
         {"lasting", fault.lasting()}});
    return !fault.lasting();
  } catch (const Uncovered& error) {
    Say({{"ok", false}, {"kind", "uncovered"}, {"message", error.what()}});
  } catch (const CudaError& error) {
    Say({{"ok", false}, {"kind", "cuda"}, {"code", error.code()}, {"message", error.what()}});
    return error.code() < 700;
  } catch (const BadRequest& error) {
    Say({{"ok", false}, {"kind", "request"}, {"message", error.what()}});
  } catch (const json::exception& error) {
    Say({{"ok", false},
         {"kind", "request"},
         {"message", std::string("the request cannot be read: ") + error.what()}});
  }
  return true;
}

// Ends the process when whoever started it has gone or closed its end, also in the middle of a
// kernel that never ends: the one way to stop it where signals to other processes are refused.
void EndWithStdin() {
  std::thread([] {
    pollfd input = {STDIN_FILENO, 0, 0};  // no event asked for: only the hang-up is told
    while (::poll(&input, 1, -1) < 0 && errno == EINTR) {
    }
    std::_Exit(0);
  }).detach();
}

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: ke_replay SHARED_FD SHARED_BYTES DEVICE\n";
    return kUsage;
  }
  (void)Answers();  // before the driver is there
  try {
    EndWithStdin();
    const SharedMemory shared = Share(argv[1], argv[2]);
    const Cuda cuda;
    cuda.Check(cuda.init(0), "starting CUDA");
    Player player(cuda, std::atoi(argv[3]));
    // Copies are several times faster; where it is refused they are still right.
    (void)cuda.register_host(shared.data, shared.bytes, 0);
    json ready = player.Describe();
    ready["ok"] = true;
    Say(ready);
    std::string line;
    while (std::getline(std::cin, line)) {
      if (!Serve(player, line, shared)) std::_Exit(kFault);
    }
    std::_Exit(0);  // nothing is worth the driver's farewell
  } catch (const std::exception& error) {
    Say({{"ok", false}, {"kind", "device"}, {"message", error.what()}});
    return kNoDevice;
  }
}

}  // namespace
}  // namespace kernel_evolve::replay

int main(int argc, char** argv) { return kernel_evolve::replay::Main(argc, argv); }
