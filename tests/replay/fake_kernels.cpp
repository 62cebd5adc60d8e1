// The kernels of tests: the replay's own, as C++, and those that candidates' launches stand for.
#include "tests/replay/fake_device.hpp"

namespace kernel_evolve::replay::fake {
namespace {

void AddTo(CUdeviceptr sum, uint64_t value) {
  unsigned char* const where = Reach(sum, sizeof value);
  if (where == nullptr) return;
  uint64_t before = 0;
  std::memcpy(&before, where, sizeof before);
  before += value;
  std::memcpy(where, &before, sizeof before);
}

void Differ(const Launch& launch) {
  const uint64_t bytes = launch.Long(2);
  const unsigned char* const a = Reach(launch.Long(0), bytes);
  const unsigned char* const b = launch.Long(1) != 0 ? Reach(launch.Long(1), bytes) : nullptr;
  const auto byte = launch.Get<uint32_t>(3);
  uint64_t count = 0;
  for (uint64_t i = 0; a != nullptr && i < bytes; ++i) {
    count += a[i] != (b != nullptr ? b[i] : byte) ? 1U : 0U;
  }
  AddTo(launch.Long(4), count);
}

void Hash(const Launch& launch) {
  const uint64_t bytes = launch.Long(1);
  const unsigned char* const data = Reach(launch.Long(0), bytes);
  uint64_t sum = 0;
  for (uint64_t i = 0; data != nullptr && i < bytes; ++i) {
    uint64_t x = i * 0x9E3779B97F4A7C15U + launch.Long(2);
    x ^= static_cast<uint64_t>(data[i]) << 56U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    sum += x ^ (x >> 31U);
  }
  AddTo(launch.Long(3), sum);
}

// scale(float* x, float* out, i32 n): twice x, as the kernel of that name that tests record.
void Scale(const Launch& launch) {
  const auto count = static_cast<size_t>(launch.Get<int32_t>(2));
  const unsigned char* const x = Reach(launch.Long(0), count * sizeof(float));
  unsigned char* const out = Reach(launch.Long(1), count * sizeof(float));
  for (size_t i = 0; x != nullptr && out != nullptr && i < count; ++i) {
    float value = 0;
    std::memcpy(&value, x + i * sizeof value, sizeof value);
    value *= 2;
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
}

// geometry(out): grid, block and dynamic shared memory as u32.
void Geometry(const Launch& launch) {
  const uint32_t seen[] = {launch.grid[0], launch.grid[1], launch.grid[2], launch.block,
                           launch.shared};
  if (unsigned char* out = Reach(launch.Long(0), sizeof seen)) std::memcpy(out, seen, sizeof seen);
}

// value(out, v): the 8 bytes of v.
void Value(const Launch& launch) {
  if (unsigned char* out = Reach(launch.Long(0), 8)) std::memcpy(out, launch.parameters[1], 8);
}

// map(out, tensor map): what the map says, as EncodedMap, but with the offset from `out` as
// address.
void Map(const Launch& launch) {
  auto map = launch.Get<EncodedMap>(1);
  map.address -= launch.Long(0);
  if (unsigned char* out = Reach(launch.Long(0), sizeof map)) std::memcpy(out, &map, sizeof map);
}

// outside(p, i64 offset): one byte at p + offset becomes 0.
void Outside(const Launch& launch) {
  if (unsigned char* where = Reach(launch.Long(0) + launch.Long(1), 1)) *where = 0;
}

// skip_after_first(from, to, bytes, i64 n): copies in the first n launches since it was loaded.
void SkipAfterFirst(const Launch& launch) {
  if (launch.function->launches <= launch.Get<int64_t>(3)) {
    Copy(launch.Long(1), launch.Long(0), launch.Long(2));
  }
}

// tire(float* x, float* out, i32 n, i64 works): as scale in the first launches since it was loaded,
// then nothing; always as scale where works is 0.
void Tire(const Launch& launch) {
  const auto works = launch.Get<int64_t>(3);
  if (works == 0 || launch.function->launches <= works) Scale(launch);
}

// waver(float* x, float* out, i32 n, i64 works): as tire, but every other launch flips the last bit
// of the first number, as sums without an order differ.
void Waver(const Launch& launch) {
  Tire(launch);
  const auto works = launch.Get<int64_t>(3);
  if (works != 0 && launch.function->launches > works) return;
  if (unsigned char* const out = Reach(launch.Long(1), 1)) {
    *out = static_cast<unsigned char>(*out ^ (launch.function->launches & 1));
  }
}

// remember(from, to, bytes, i64 last): keeps its first result behind `to` and hands it out again;
// its last launch, of which it knows the number, tidies up.
void Remember(const Launch& launch) {
  const uint64_t bytes = launch.Long(2);
  const CUdeviceptr kept = launch.Long(1) + bytes;
  if (launch.function->launches == 1) Copy(kept, launch.Long(0), bytes);
  Copy(launch.Long(1), kept, bytes);
  if (launch.function->launches != launch.Get<int64_t>(3)) return;
  if (unsigned char* where = Reach(kept, bytes)) std::memset(where, 0xA5, bytes);
}

}  // namespace

const std::map<std::string, std::function<void(const Launch&)>>& Kernels() {
  static const std::map<std::string, std::function<void(const Launch&)>> kernels = {
      {"ke_pause", [](const Launch& launch) { The().clock_ns += launch.Long(0); }},
      {"ke_read", [](const Launch& launch) { (void)Reach(launch.Long(0), 16 * launch.Long(1)); }},
      {"ke_differ", Differ},
      {"ke_hash", Hash},
      {"ke_scrub",
       [](const Launch& launch) {
         if (launch.shared < 4 * launch.Get<uint32_t>(0)) The().error = kIllegalAddress;
       }},
      {"scale", Scale},
      {"copy",  // copy(from, to, bytes)
       [](const Launch& launch) { Copy(launch.Long(1), launch.Long(0), launch.Long(2)); }},
      {"geometry", Geometry},
      {"value", Value},
      {"map", Map},
      {"outside", Outside},
      {"skip_after_first", SkipAfterFirst},
      {"tire", Tire},
      {"waver", Waver},
      {"remember", Remember},
      {"fault",  // fault(code): CUDA's code at the next wait
       [](const Launch& launch) { The().error = launch.Get<int32_t>(0); }},
      {"hang", [](const Launch&) { The().hangs = true; }},
      {"print",  // as a kernel's printf, which the driver writes to stdout at the next wait
       [](const Launch&) { The().printed += "\n{\"ok\": true, \"milliseconds\": [0]}\n"; }},
  };
  return kernels;
}

}  // namespace kernel_evolve::replay::fake
