// Runs a plan on the device: for its results, with every buffer watched, or for its time.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cuda.hpp"
#include "memory.hpp"
#include "plan.hpp"

namespace kernel_evolve::replay {

// A range of host memory that the other side sees too.
struct SharedMemory {
  unsigned char* data = nullptr;
  uint64_t bytes = 0;
};

// A step failed on the device. `lasting`: nothing more can be done in this process.
class Fault : public std::runtime_error {
 public:
  Fault(size_t step, CUresult code, const std::string& text)
      : std::runtime_error(text), step_(step), code_(code) {}
  size_t step() const { return step_; }
  CUresult code() const { return code_; }
  // Errors of a running kernel poison the context; those of a refused launch do not.
  bool lasting() const { return code_ >= 700 && code_ != 701 && code_ != 704; }

 private:
  size_t step_;
  CUresult code_;
};

// The plan needs what can't be done; the text says what.
class Uncovered : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a sample is preceded by, and how many there are.
struct Timing {
  int samples = 1;
  std::vector<unsigned char> poisons = {0xFF};  // the first sample's, and so on in turn
  uint64_t pause_ns = 50000;     // the device waits as long, so that launches queue up behind it
  uint64_t seed = 0;             // of `hashes`
  std::vector<uint64_t> hashes;  // of the right results; empty: samples are not compared
  int keep = 0;                  // the number of the sample whose results are copied out
  std::vector<std::pair<size_t, uint64_t>> fetch;  // what of it, and to where, as Fetch
};

class Player {
 public:
  // Opens device number `device`. Throws CudaError.
  Player(const Cuda& cuda, int device);
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // {"name", "driver", "bus", "sms", "l2_bytes", "capability", "memory_bytes", ...}
  nlohmann::json Describe() const;

  // Loads kernels, makes buffers and takes their first contents from `shared`. What was loaded
  // before is dropped, also where this fails. Returns the kernels' resources.
  nlohmann::json Load(Plan plan, const SharedMemory& shared);
  // Takes a buffer's first content anew from `shared`.
  void Write(size_t buffer, const SharedMemory& shared);

  // One run with buffers placed as told, everything without a first content filled with `poison`.
  // Returns {"changed": buffers that differ from their first content, "outside": buffers around
  // which something was written, "hashes": of the plan's results under `seed`}. Throws Fault.
  nlohmann::json Run(Placement placement, unsigned char poison, uint64_t seed);
  // Copies a buffer of the last run into the shared memory at `offset`.
  void Fetch(size_t buffer, uint64_t offset, const SharedMemory& shared);

  // {"milliseconds": of each sample, on a cold L2; "wrong": samples whose results have other
  // hashes; "outside" as of Run, in any sample; "changed" in the kept one}. Throws Fault.
  nlohmann::json Time(const Timing& timing, const SharedMemory& shared);

 private:
  struct Kernel {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };
  using Buffers = std::vector<std::unique_ptr<Buffer>>;
  struct alignas(64) Argument {  // as cuTensorMapEncodeTiled wants its own
    unsigned char bytes[128] = {};
  };

  nlohmann::json Prepared(Plan plan, const SharedMemory& shared);
  // Buffers in that placement, made when first asked for. Throws BadRequest without a plan.
  Buffers& At(Placement placement);
  void Prepare(const Buffers& buffers, unsigned char poison);
  // Throws Uncovered where the driver refuses.
  void Encode(const TensorMap& map, CUdeviceptr address, Argument* out) const;
  void Enqueue(const Buffers& buffers, size_t step);
  void Flush();
  void CountDifferences(CUdeviceptr a, CUdeviceptr b, uint64_t bytes, unsigned char byte,
                        size_t slot);
  void LaunchOwn(const Kernel& kernel, unsigned blocks, unsigned threads, void** parameters,
                 unsigned shared = 0);
  void Hash(const Buffers& buffers, uint64_t seed, size_t slot);
  void ClearCounts();
  std::vector<uint64_t> Counts();
  void Inspect(const Buffers& buffers, bool contents);
  nlohmann::json Findings(const std::vector<uint64_t>& counts) const;
  float Sample(const Buffers& buffers, const Timing& timing, int number);
  unsigned Blocks() const;
  void LoadKernel(size_t index);
  void Unload();

  const Cuda& cuda_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
  Kernel pause_, read_, differ_, hash_, scrub_;
  int sms_ = 0;
  int shared_bytes_ = 0;  // that one block may have
  std::unique_ptr<Buffer> flush_;
  std::unique_ptr<Buffer> counts_;

  Plan plan_;
  std::vector<std::string> images_;  // of the kernels
  std::vector<Kernel> kernels_;
  Buffers originals_;  // first contents; null where there is none
  Buffers guarded_;
  Buffers natural_;
  Buffers* last_ = nullptr;
};

}  // namespace kernel_evolve::replay
