// What is replayed: buffers, kernels and launches, read from the JSON that REPLAY.md describes. The
// text comes from the trusted side, which has checked the tape; reading still takes nothing on
// trust that an address is made from.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kernel_evolve::replay {

// A plan or a request that makes no sense; the text is one sentence.
class BadRequest : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct PlannedBuffer {
  uint64_t bytes = 0;
  std::optional<uint64_t> data;  // where its first content lies in the shared memory; none: poison
};

struct PlannedKernel {
  std::string cubin;  // a file
  std::string name;
  uint32_t shared = 0;  // bytes of dynamic shared memory
  uint32_t threads = 0;
  bool fresh = false;  // loaded anew before each run: it has variables that outlive a launch
};

// How the tensor memory accelerator sees an address, as cuTensorMapEncodeTiled takes it: the first
// dimension is the one without a stride.
struct TensorMap {
  int type = 0;      // CUtensorMapDataType
  int swizzle = 0;   // CUtensorMapSwizzle
  bool nan = false;  // what is outside reads as NaN, otherwise as 0
  std::vector<uint64_t> shape;
  std::vector<uint64_t> strides;  // bytes, one fewer than dimensions
  std::vector<uint32_t> box;
};

// A kernel's parameter: an address within a buffer, perhaps with a map of what lies there, or the
// bytes of a value.
struct Parameter {
  std::optional<size_t> buffer;
  uint64_t offset = 0;
  std::array<unsigned char, 8> value = {};
  std::optional<TensorMap> map;
};

// A part of a buffer.
struct Range {
  size_t buffer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A launch, of nothing where the grid has a 0; or, with a `fill` byte, a buffer's range set to it.
struct Step {
  size_t kernel = 0;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::vector<Parameter> parameters;
  std::optional<unsigned char> fill;
  Range range;
};

struct Plan {
  std::vector<PlannedBuffer> buffers;
  std::vector<PlannedKernel> kernels;
  std::vector<Step> steps;
  std::vector<Range> results;  // what is hashed
};

// `shared_bytes`: how large the shared memory is. Throws BadRequest.
Plan ReadPlan(const nlohmann::json& text, uint64_t shared_bytes);

}  // namespace kernel_evolve::replay
