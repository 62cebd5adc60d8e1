// The device of tests, which fake_cuda.cpp drives and fake_kernels.cpp runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/evaluator_gpu/replay/cuda.hpp"

namespace kernel_evolve::replay {

struct CUfunc_st {
  std::string name;
  unsigned most_shared = 48U << 10U;
  int launches = 0;
};
struct CUmod_st {
  std::string image;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};
struct CUevent_st {
  uint64_t ns = 0;
};

namespace fake {

enum : CUresult {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNotFound = 500,
  kIllegalAddress = 700,
  kOutOfResources = 701
};
inline constexpr size_t kPage = 64U << 10U;
inline constexpr uint64_t kLaunchNs = 1000;

struct Mapping {
  size_t bytes = 0;
  bool open = false;
};

struct Device {
  std::map<CUdeviceptr, Mapping> mapped;
  std::map<CUmemHandle, size_t> handles;
  std::map<std::string, int> calls;
  std::vector<std::unique_ptr<CUmod_st>> modules;
  CUmemHandle next_handle = 1;
  size_t used = 0;
  uint64_t clock_ns = 0;
  CUresult error = 0;  // of a kernel; lasts
  bool hangs = false;
  std::string printed;
};

Device& The();

// What a kernel or a copy reaches; null where any byte of it isn't mapped, and the context is lost.
unsigned char* Reach(CUdeviceptr where, uint64_t bytes);
void Copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes);

// What cuTensorMapEncodeTiled makes here of its arguments, in the 128 bytes of a CUtensorMap.
struct EncodedMap {
  CUdeviceptr address;
  uint64_t shape[5];
  uint64_t strides[4];
  uint32_t dimensions;
  uint32_t box[5];
  unsigned char type, swizzle, promotion, nan;
};
static_assert(sizeof(EncodedMap) <= 128);

struct Launch {
  CUfunction function;
  unsigned grid[3];
  unsigned block;
  unsigned shared;
  void** parameters;

  template <typename T>
  T Get(int number) const {
    T value;
    std::memcpy(&value, parameters[number], sizeof value);
    return value;
  }
  uint64_t Long(int number) const { return Get<uint64_t>(number); }
};

// By name. They run when they are launched.
const std::map<std::string, std::function<void(const Launch&)>>& Kernels();

}  // namespace fake
}  // namespace kernel_evolve::replay
