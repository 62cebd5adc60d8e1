#include "player.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels.hpp"

namespace kernel_evolve::replay {
namespace {

using nlohmann::json;

constexpr unsigned char kRedzone = 0xA5;
constexpr int kBlocksPerSm = 4;  // of our own kernels
constexpr unsigned kThreads = 512;
// Values of cuda.h.
enum Attribute {
  kSms = 16,
  kL2 = 38,
  kMajor = 75,
  kMinor = 76,
  kClock = 13,
  kMemoryClock = 36,
  kBusWidth = 37,
  kPageable = 88,  // whether the device reaches memory of the process that nobody registered
  kSharedPerBlock = 97
};
enum FunctionAttribute { kShared = 1, kLocal = 3, kRegisters = 4, kMaxDynamicShared = 8 };
constexpr int kMallocHeap = 2;  // CU_LIMIT_MALLOC_HEAP_SIZE

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadRequest("the kernel's file " + path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Player::Player(const Cuda& cuda, int device) : cuda_(cuda) {
  cuda_.Check(cuda_.device_get(&device_, device), "opening the device");
  cuda_.Check(cuda_.retain_context(&context_, device_), "making a context");
  cuda_.Check(cuda_.set_context(context_), "making a context");
  // A kernel has no business allocating: the heap would outlive a sample.
  (void)cuda_.set_limit(kMallocHeap, 1 << 16);
  // Not the kind that overtakes copies from and to the host.
  cuda_.Check(cuda_.create_stream(&stream_, 0), "making a stream");
  cuda_.Check(cuda_.create_event(&begin_, 0), "making an event");
  cuda_.Check(cuda_.create_event(&end_, 0), "making an event");
  cuda_.Check(cuda_.load_module(&pause_.module, kKernels), "compiling the replay's kernels");
  for (const auto& [kernel, name] : {std::pair{&pause_, "ke_pause"}, std::pair{&read_, "ke_read"},
                                     std::pair{&differ_, "ke_differ"}, std::pair{&hash_, "ke_hash"},
                                     std::pair{&scrub_, "ke_scrub"}}) {
    cuda_.Check(cuda_.get_function(&kernel->function, pause_.module, name), "finding a kernel");
  }
  cuda_.Check(cuda_.device_attribute(&shared_bytes_, kSharedPerBlock, device_),
              "asking for the shared memory");
  cuda_.Check(cuda_.set_function_attribute(scrub_.function, kMaxDynamicShared, shared_bytes_),
              "giving a kernel its shared memory");
  cuda_.Check(cuda_.device_attribute(&sms_, kSms, device_), "asking for the processors");
  int l2 = 0;
  cuda_.Check(cuda_.device_attribute(&l2, kL2, device_), "asking for the size of the L2");
  // Read, not written: written lines would have to be written back while the clock runs. Four times
  // the cache, since the replacement is not strictly by age.
  flush_ =
      std::make_unique<Buffer>(cuda_, device_, 4 * static_cast<size_t>(l2), Placement::kHidden);
  cuda_.Check(cuda_.fill(flush_->address(), 0, flush_->bytes(), stream_), "filling memory");
}

Player::~Player() = default;  // the process ends with it, and the driver frees what it held

json Player::Describe() const {
  char name[128] = "";
  char bus[32] = "";
  int driver = 0;
  cuda_.Check(cuda_.device_name(name, sizeof name, device_), "asking for the name");
  cuda_.Check(cuda_.device_bus_id(bus, sizeof bus, device_), "asking for the bus");
  cuda_.Check(cuda_.driver_version(&driver), "asking for the driver");
  json out = {{"name", name}, {"bus", bus}, {"driver", driver}};
  for (const auto& [key, attribute] :
       {std::pair{"sms", kSms}, std::pair{"l2_bytes", kL2}, std::pair{"major", kMajor},
        std::pair{"minor", kMinor}, std::pair{"clock_khz", kClock},
        std::pair{"memory_clock_khz", kMemoryClock}, std::pair{"bus_bits", kBusWidth},
        std::pair{"pageable_memory_access", kPageable}}) {
    int value = 0;
    if (cuda_.device_attribute(&value, attribute, device_) == 0) out[key] = value;
  }
  size_t free_bytes = 0;
  size_t total = 0;
  cuda_.Check(cuda_.memory_info(&free_bytes, &total), "asking for the memory");
  out["memory_bytes"] = total;
  out["free_bytes"] = free_bytes;
  return out;
}

void Player::Unload() {
  last_ = nullptr;
  for (Buffers* buffers : {&originals_, &guarded_, &natural_}) buffers->clear();
  for (const Kernel& kernel : kernels_) {
    if (kernel.module != nullptr) (void)cuda_.unload_module(kernel.module);
  }
  kernels_.clear();
  images_.clear();
  counts_ = nullptr;
  plan_ = {};
}

void Player::LoadKernel(size_t index) {
  const PlannedKernel& planned = plan_.kernels[index];
  Kernel& kernel = kernels_[index];
  if (kernel.module != nullptr) {
    cuda_.Check(cuda_.unload_module(std::exchange(kernel.module, nullptr)), "unloading a kernel");
  }
  cuda_.Check(cuda_.load_module(&kernel.module, images_[index].c_str()), "loading a kernel");
  cuda_.Check(cuda_.get_function(&kernel.function, kernel.module, planned.name.c_str()),
              "finding a kernel");
  if (planned.shared > 48U * 1024U) {
    cuda_.Check(cuda_.set_function_attribute(kernel.function, kMaxDynamicShared,
                                             static_cast<int>(planned.shared)),
                "giving a kernel its shared memory");
  }
}

json Player::Load(Plan plan, const SharedMemory& shared) {
  Unload();
  try {
    return Prepared(std::move(plan), shared);
  } catch (const std::exception&) {
    Unload();  // nothing half made is run
    throw;
  }
}

json Player::Prepared(Plan plan, const SharedMemory& shared) {
  plan_ = std::move(plan);
  json resources = json::array();
  for (const PlannedKernel& planned : plan_.kernels) {
    images_.push_back(ReadFile(planned.cubin));
    kernels_.emplace_back();
    LoadKernel(kernels_.size() - 1);
    const CUfunction function = kernels_.back().function;
    json entry = json::object();
    for (const auto& [key, attribute] :
         {std::pair{"registers", kRegisters}, std::pair{"local_bytes", kLocal},
          std::pair{"static_shared_bytes", kShared}}) {
      int value = 0;
      cuda_.Check(cuda_.function_attribute(&value, attribute, function), "asking about a kernel");
      entry[key] = value;
    }
    int resident = 0;
    cuda_.Check(
        cuda_.occupancy(&resident, function, static_cast<int>(planned.threads), planned.shared),
        "asking about a kernel");
    entry["programs_per_sm"] = resident;
    resources.push_back(entry);
  }
  const size_t count = plan_.buffers.size();
  originals_.resize(count);
  const size_t slots = 3 * count + plan_.results.size();
  for (const size_t i : Shuffled(count + 1)) {
    if (i == count) {
      counts_ =
          std::make_unique<Buffer>(cuda_, device_, slots * sizeof(uint64_t), Placement::kHidden);
    } else if (plan_.buffers[i].data) {
      Write(i, shared);
    }
  }
  return resources;
}

void Player::Write(size_t index, const SharedMemory& shared) {
  if (index >= plan_.buffers.size() || !plan_.buffers[index].data) {
    throw BadRequest("buffer " + std::to_string(index) + " has no first content");
  }
  const PlannedBuffer& planned = plan_.buffers[index];
  if (originals_[index] == nullptr) {
    originals_[index] = std::make_unique<Buffer>(cuda_, device_, planned.bytes, Placement::kHidden);
  }
  if (planned.bytes == 0) return;
  cuda_.Check(cuda_.copy_to_device(originals_[index]->address(), shared.data + *planned.data,
                                   planned.bytes),
              "copying to the device");
  // A copy from pageable memory may return before it has arrived.
  cuda_.Check(cuda_.synchronize(), "copying to the device");
}

Player::Buffers& Player::At(Placement placement) {
  if (counts_ == nullptr) throw BadRequest("nothing is loaded");
  Buffers& buffers = placement == Placement::kGuard ? guarded_ : natural_;
  if (buffers.empty()) {
    Buffers made(plan_.buffers.size());  // all of them, or none
    for (const size_t i : Shuffled(made.size())) {
      made[i] = std::make_unique<Buffer>(cuda_, device_, plan_.buffers[i].bytes, placement);
    }
    buffers = std::move(made);
  }
  return buffers;
}

void Player::Prepare(const Buffers& buffers, unsigned char poison) {
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (plan_.kernels[i].fresh) LoadKernel(i);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = *buffers[i];
    if (originals_[i] != nullptr && buffer.bytes() > 0) {
      cuda_.Check(cuda_.copy(buffer.address(), originals_[i]->address(), buffer.bytes(), stream_),
                  "filling memory");
    } else if (buffer.bytes() > 0) {
      cuda_.Check(cuda_.fill(buffer.address(), poison, buffer.bytes(), stream_), "filling memory");
    }
    for (const auto& [where, bytes] : {std::pair{buffer.front(), buffer.front_bytes()},
                                       std::pair{buffer.back(), buffer.back_bytes()}}) {
      if (bytes > 0) cuda_.Check(cuda_.fill(where, kRedzone, bytes, stream_), "filling memory");
    }
  }
}

void Player::Encode(const TensorMap& map, CUdeviceptr address, Argument* out) const {
  constexpr int kNoInterleave = 0;
  constexpr int kPromote128 = 2;  // CU_TENSOR_MAP_L2_PROMOTION_L2_128B, as Triton's launcher
  const std::vector<uint32_t> every(map.shape.size(), 1);
  const CUresult code = cuda_.encode_tensor_map(
      out->bytes, map.type, static_cast<unsigned>(map.shape.size()), address, map.shape.data(),
      map.strides.data(), map.box.data(), every.data(), kNoInterleave, map.swizzle, kPromote128,
      map.nan ? 1 : 0);
  if (code != 0) throw Uncovered("a tensor descriptor that the driver refuses");
}

void Player::Enqueue(const Buffers& buffers, size_t number) {
  const Step& step = plan_.steps[number];
  CUresult code = 0;
  std::string what;
  if (step.fill) {
    what = "filling a buffer";
    if (step.range.bytes > 0) {
      code = cuda_.fill(buffers[step.range.buffer]->address() + step.range.offset, *step.fill,
                        step.range.bytes, stream_);
    }
  } else if (step.grid[0] != 0 && step.grid[1] != 0 && step.grid[2] != 0) {
    std::vector<Argument> arguments(step.parameters.size());
    std::vector<void*> parameters;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Parameter& parameter = step.parameters[i];
      const CUdeviceptr address =
          parameter.buffer ? buffers[*parameter.buffer]->address() + parameter.offset : 0;
      if (parameter.map) {
        Encode(*parameter.map, address, &arguments[i]);
      } else if (parameter.buffer) {
        std::memcpy(arguments[i].bytes, &address, sizeof address);
      } else {
        std::copy(parameter.value.begin(), parameter.value.end(), arguments[i].bytes);
      }
      parameters.push_back(arguments[i].bytes);
    }
    const PlannedKernel& planned = plan_.kernels[step.kernel];
    what = "launching " + planned.name;
    code = cuda_.launch(kernels_[step.kernel].function, step.grid[0], step.grid[1], step.grid[2],
                        planned.threads, 1, 1, planned.shared, stream_, parameters.data(), nullptr);
  }
  if (code != 0) throw Fault(number, code, what + ": " + cuda_.NameOf(code));
}

unsigned Player::Blocks() const { return static_cast<unsigned>(sms_ * kBlocksPerSm); }

void Player::LaunchOwn(const Kernel& kernel, unsigned blocks, unsigned threads, void** parameters,
                       unsigned shared) {
  cuda_.Check(cuda_.launch(kernel.function, blocks, 1, 1, threads, 1, 1, shared, stream_,
                           parameters, nullptr),
              "launching a kernel of the replay");
}

void Player::CountDifferences(CUdeviceptr a, CUdeviceptr b, uint64_t bytes, unsigned char byte,
                              size_t slot) {
  if (bytes == 0) return;
  auto pattern = static_cast<uint32_t>(byte);
  CUdeviceptr count = counts_->address() + slot * sizeof(uint64_t);
  void* parameters[] = {&a, &b, &bytes, &pattern, &count};
  LaunchOwn(differ_, Blocks(), kThreads, parameters);
}

// Hashes of the results, of which `slot` is the first one's place among the counts.
void Player::Hash(const Buffers& buffers, uint64_t seed, size_t slot) {
  for (const Range& range : plan_.results) {
    CUdeviceptr where = buffers[range.buffer]->address() + range.offset;
    CUdeviceptr sum = counts_->address() + slot++ * sizeof(uint64_t);
    uint64_t bytes = range.bytes;
    void* parameters[] = {&where, &bytes, &seed, &sum};
    LaunchOwn(hash_, Blocks(), kThreads, parameters);
  }
}

std::vector<uint64_t> Player::Counts() {
  std::vector<uint64_t> counts(counts_->bytes() / sizeof(uint64_t));
  cuda_.Check(cuda_.wait_stream(stream_), "comparing memory");
  cuda_.Check(cuda_.copy_to_host(counts.data(), counts_->address(), counts_->bytes()),
              "copying from the device");
  return counts;
}

void Player::ClearCounts() {
  cuda_.Check(cuda_.fill(counts_->address(), 0, counts_->bytes(), stream_), "filling memory");
}

// What was written outside and, if asked, what changed, into the counts.
void Player::Inspect(const Buffers& buffers, bool contents) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = *buffers[i];
    CountDifferences(buffer.front(), 0, buffer.front_bytes(), kRedzone, 3 * i);
    CountDifferences(buffer.back(), 0, buffer.back_bytes(), kRedzone, 3 * i + 1);
    if (contents && originals_[i] != nullptr) {
      CountDifferences(buffer.address(), originals_[i]->address(), buffer.bytes(), 0, 3 * i + 2);
    }
  }
}

json Player::Findings(const std::vector<uint64_t>& counts) const {
  json changed = json::array();
  json outside = json::array();
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (counts[3 * i] + counts[3 * i + 1] > 0) outside.push_back(i);
    if (counts[3 * i + 2] > 0) changed.push_back(i);
  }
  return {{"changed", changed}, {"outside", outside}};
}

json Player::Run(Placement placement, unsigned char poison, uint64_t seed) {
  Buffers& buffers = At(placement);
  last_ = &buffers;
  Prepare(buffers, poison);
  Flush();  // a kernel that looks finds the device as before a timed sample
  cuda_.Check(cuda_.wait_stream(stream_), "filling memory");
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    Enqueue(buffers, i);
    // One by one, so that a fault has a name.
    if (const CUresult code = cuda_.wait_stream(stream_); code != 0) {
      throw Fault(i, code, "running step " + std::to_string(i) + ": " + cuda_.NameOf(code));
    }
  }
  ClearCounts();
  Inspect(buffers, true);
  Hash(buffers, seed, 3 * buffers.size());
  const std::vector<uint64_t> counts = Counts();
  json out = Findings(counts);
  out["hashes"] = std::vector<uint64_t>(counts.begin() + static_cast<ptrdiff_t>(3 * buffers.size()),
                                        counts.end());
  return out;
}

void Player::Fetch(size_t index, uint64_t offset, const SharedMemory& shared) {
  if (last_ == nullptr || index >= last_->size()) throw BadRequest("there is no such result");
  const Buffer& buffer = *(*last_)[index];
  if (offset > shared.bytes || buffer.bytes() > shared.bytes - offset) {
    throw BadRequest("a result does not fit into the shared memory");
  }
  if (buffer.bytes() == 0) return;
  cuda_.Check(cuda_.copy_to_host(shared.data + offset, buffer.address(), buffer.bytes()),
              "copying from the device");
}

// As a call finds the device that has done something else: nothing of the last one in a cache or in
// shared memory.
void Player::Flush() {
  (void)cuda_.reset_persisting();
  CUdeviceptr where = flush_->address();
  uint64_t vectors = flush_->bytes() / 16;
  void* read[] = {&where, &vectors};
  LaunchOwn(read_, Blocks(), kThreads, read);
  auto words = static_cast<uint32_t>(shared_bytes_) / 4U;
  void* scrub[] = {&words};
  LaunchOwn(scrub_, static_cast<unsigned>(sms_), kThreads, scrub,
            static_cast<unsigned>(shared_bytes_));
}

float Player::Sample(const Buffers& buffers, const Timing& timing, int number) {
  // What a kernel left in or around the buffers in the last sample is gone.
  Prepare(buffers, timing.poisons[static_cast<size_t>(number) % timing.poisons.size()]);
  Flush();
  uint64_t pause = timing.pause_ns;
  void* parameters[] = {&pause};
  LaunchOwn(pause_, 1, 1, parameters);
  cuda_.Check(cuda_.record(begin_, stream_), "recording an event");
  for (size_t i = 0; i < plan_.steps.size(); ++i) Enqueue(buffers, i);
  cuda_.Check(cuda_.record(end_, stream_), "recording an event");
  if (const CUresult code = cuda_.wait_stream(stream_); code != 0) {
    throw Fault(plan_.steps.size(), code, "while timed: " + cuda_.NameOf(code));
  }
  float milliseconds = 0;
  cuda_.Check(cuda_.elapsed(&milliseconds, begin_, end_), "reading the clock");
  return milliseconds;
}

json Player::Time(const Timing& timing, const SharedMemory& shared) {
  Buffers& buffers = At(Placement::kNatural);
  last_ = &buffers;
  guarded_.clear();  // results of runs before, which a kernel could take for its own
  const auto first = static_cast<ptrdiff_t>(3 * buffers.size());
  std::vector<float> milliseconds;
  std::vector<uint64_t> seen(static_cast<size_t>(first));
  int wrong = 0;
  for (int number = 0; number < timing.samples; ++number) {
    milliseconds.push_back(Sample(buffers, timing, number));
    ClearCounts();
    Inspect(buffers, number == timing.keep);  // contents are restored before each sample
    if (!timing.hashes.empty()) Hash(buffers, timing.seed, 3 * buffers.size());
    const std::vector<uint64_t> counts = Counts();
    for (size_t i = 0; i < seen.size(); ++i) seen[i] += counts[i];
    const bool same = std::equal(timing.hashes.begin(), timing.hashes.end(), counts.begin() + first,
                                 counts.end());
    wrong += same || timing.hashes.empty() ? 0 : 1;
    if (number != timing.keep) continue;
    for (const auto& [buffer, offset] : timing.fetch) Fetch(buffer, offset, shared);
  }
  json out = Findings(seen);
  out["milliseconds"] = milliseconds;
  out["wrong"] = wrong;
  return out;
}

}  // namespace kernel_evolve::replay
