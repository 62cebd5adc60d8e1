// Random numbers without state: the i-th number of a stream is a function of the stream's key and i
// alone, so neither threads nor the order of work can change one. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace kernel_evolve {

// A stream is keyed by the run's seed and the place that draws from it. The mixing function is
// SplitMix64's finaliser; it is part of the journal's format and never changes.
class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view node_path, int64_t visit, int64_t attempt,
               int64_t sequence)
      : key_(Mix(seed + kGamma)) {
    for (const char c : node_path) key_ = Mix(key_ + kGamma + static_cast<unsigned char>(c));
    for (const int64_t part : {visit, attempt, sequence}) {
      key_ = Mix(key_ + kGamma + static_cast<uint64_t>(part));
    }
  }

  uint64_t Bits(uint64_t index) const { return Mix(key_ + (index + 1) * kGamma); }

  // In [0, 1), a multiple of 2^-53.
  double Uniform(uint64_t index) const {
    return static_cast<double>(Bits(index) >> 11U) * 0x1.0p-53;
  }

 private:
  static constexpr uint64_t kGamma = 0x9E3779B97F4A7C15U;

  static constexpr uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  uint64_t key_;
};

}  // namespace kernel_evolve
