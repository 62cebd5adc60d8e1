// Device memory in which a mistake shows: every buffer lies alone between unmapped addresses, and
// the mapped bytes around it hold a pattern that nothing may change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda.hpp"

namespace kernel_evolve::replay {

enum class Placement {
  kGuard,    // the buffer's end against an unmapped address: reading on faults
  kNatural,  // at a multiple of 2 MiB, as PyTorch's allocator does for large tensors
  kHidden,   // as kNatural, at an address that is drawn: memory of which kernels aren't told
};

// A multiple of `unit`, drawn from a range of addresses that processes leave free: where memory may
// be asked for so that knowing other addresses, or those of another process, doesn't tell it.
uint64_t DrawnAddress(uint64_t unit);

// The numbers below `count` in an order that is drawn.
std::vector<size_t> Shuffled(size_t count);

// One buffer. Its address is a multiple of 16 in any placement, so that what a kernel was
// specialised on holds. Throws CudaError; code 2 says that memory ran out.
class Buffer {
 public:
  Buffer(const Cuda& cuda, CUdevice device, size_t bytes, Placement placement);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }
  // The mapped bytes before and behind the buffer.
  CUdeviceptr front() const { return start_; }
  size_t front_bytes() const { return address_ - start_; }
  CUdeviceptr back() const { return address_ + bytes_; }
  size_t back_bytes() const { return start_ + mapped_ - back(); }

 private:
  void Reserve(size_t page, Placement placement);
  void Release();

  const Cuda& cuda_;
  const size_t bytes_;
  size_t mapped_ = 0;
  size_t reserved_ = 0;
  CUdeviceptr reservation_ = 0;
  CUdeviceptr start_ = 0;
  CUdeviceptr address_ = 0;
  CUmemHandle handle_ = 0;
};

}  // namespace kernel_evolve::replay
