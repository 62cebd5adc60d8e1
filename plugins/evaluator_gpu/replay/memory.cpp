#include "memory.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace kernel_evolve::replay {
namespace {

constexpr size_t kAlignment = 16;  // what Triton specialises pointers on

// Above programs and below libraries and stacks, wherever their randomness puts them; addresses of
// 39 bits are enough for the lowest.
constexpr uint64_t kLowest = uint64_t{1} << 36U;
constexpr uint64_t kHighest = uint64_t{1} << 46U;
constexpr int kTries = 4;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

uint64_t DrawnAddress(uint64_t unit) {
  std::random_device device;  // the kernel's randomness
  std::uniform_int_distribution<uint64_t> place(kLowest / unit + 1, kHighest / unit - 1);
  return place(device) * unit;
}

std::vector<size_t> Shuffled(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  std::random_device device;
  std::shuffle(numbers.begin(), numbers.end(), device);
  return numbers;
}

Buffer::Buffer(const Cuda& cuda, CUdevice device, size_t bytes, Placement placement)
    : cuda_(cuda), bytes_(bytes) {
  CUmemAllocationProp prop = {};
  prop.type = 1;
  prop.location = {1, device};
  size_t page = 0;
  cuda_.Check(cuda_.granularity(&page, &prop, 0), "asking for the size of a page");
  const size_t room = RoundUp(std::max(bytes, size_t{1}), kAlignment);
  mapped_ = RoundUp(room, page);
  reserved_ = mapped_ + 2 * page;  // a page on either side stays unmapped
  Reserve(page, placement);
  try {
    cuda_.Check(cuda_.create(&handle_, mapped_, &prop, 0), "allocating memory");
    cuda_.Check(cuda_.map(reservation_ + page, mapped_, 0, handle_, 0), "mapping memory");
    start_ = reservation_ + page;
    const CUmemAccessDesc access = {{1, device}, 3};
    cuda_.Check(cuda_.set_access(start_, mapped_, &access, 1), "opening memory");
  } catch (const CudaError&) {
    Release();
    throw;
  }
  address_ = placement == Placement::kGuard ? start_ + mapped_ - room : start_;
}

// What was asked for may be taken, or refused: any address is better than none.
void Buffer::Reserve(size_t page, Placement placement) {
  for (int i = 0; i < kTries && placement == Placement::kHidden; ++i) {
    if (cuda_.reserve(&reservation_, reserved_, 0, DrawnAddress(page), 0) == 0) return;
    reservation_ = 0;
  }
  cuda_.Check(cuda_.reserve(&reservation_, reserved_, 0, 0, 0), "reserving addresses");
}

Buffer::~Buffer() { Release(); }

// After a fault of the device every call fails; the process ends then, and its memory with it.
void Buffer::Release() {
  if (start_ != 0) (void)cuda_.unmap(start_, mapped_);
  if (handle_ != 0) (void)cuda_.release(handle_);
  if (reservation_ != 0) (void)cuda_.free_address(reservation_, reserved_);
}

}  // namespace kernel_evolve::replay
