// A driver of CUDA for tests, in the place of libcuda.so.1: the device's memory is host memory with
// real pages, kernels are the functions of fake_kernels.cpp, found by name, and the clock counts
// launches.
//
// Kernels run when they are launched; what they do wrong is told at the next wait, as CUDA does.
// Environment:
//   FAKE_CUDA_FAIL=cuInit:100[,...]   that function returns that code; cuMemCreate:2@5 from its
//                                     fifth call on
//   FAKE_CUDA_MEMORY=BYTES            how much the device has
//   FAKE_CUDA_LOG=FILE                a line per launch ("launch NAME"), event, loaded module and
//                                     reservation ("reserve", with the address that is asked for)
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "tests/replay/fake_device.hpp"

namespace kernel_evolve::replay {
namespace fake {

Device& The() {
  static Device device;
  return device;
}

unsigned char* Reach(CUdeviceptr where, uint64_t bytes) {
  Device& device = The();
  auto next = device.mapped.upper_bound(where);
  if (next != device.mapped.begin()) {
    const auto& [start, mapping] = *std::prev(next);
    const uint64_t inside = where - start;
    if (mapping.open && inside <= mapping.bytes && bytes <= mapping.bytes - inside) {
      return reinterpret_cast<unsigned char*>(where);  // NOLINT(performance-no-int-to-ptr)
    }
  }
  device.error = kIllegalAddress;
  return nullptr;
}

void Copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
  unsigned char* const target = Reach(to, bytes);
  const unsigned char* const source = Reach(from, bytes);
  if (target != nullptr && source != nullptr) std::memmove(target, source, bytes);
}

}  // namespace fake

namespace {

using namespace fake;  // NOLINT(google-build-using-namespace)

size_t MemoryBytes() {
  const char* const given = std::getenv("FAKE_CUDA_MEMORY");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : size_t{1} << 30U;
}

void Log(const std::string& line) {
  const char* const path = std::getenv("FAKE_CUDA_LOG");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) return;
  (void)std::fprintf(file, "%s\n", line.c_str());
  (void)std::fclose(file);
}

// The code that FAKE_CUDA_FAIL wants of this call; 0: none.
CUresult Wanted(const std::string& name) {
  const int call = ++The().calls[name];
  const char* const given = std::getenv("FAKE_CUDA_FAIL");
  if (given == nullptr) return 0;
  const std::string wanted = std::string(",") + given + ",";
  const size_t at = wanted.find("," + name + ":");
  if (at == std::string::npos) return 0;
  char* end = nullptr;
  const auto code =
      static_cast<CUresult>(std::strtol(wanted.c_str() + at + name.size() + 2, &end, 10));
  const int from = *end == '@' ? std::atoi(end + 1) : 1;
  return call >= from ? code : 0;
}

#define FAKE_ENTER(name) \
  if (const CUresult wanted = Wanted(name); wanted != 0) return wanted

CUresult Wait() {
  Device& device = The();
  if (!device.printed.empty()) {
    (void)std::fputs(device.printed.c_str(), stdout);
    (void)std::fflush(stdout);
    device.printed.clear();
  }
  while (device.hangs) (void)::pause();
  return device.error;
}

}  // namespace

// -- the driver's functions -----------------------------------------------------------------------

extern "C" {

CUresult cuInit(unsigned /*flags*/) {
  FAKE_ENTER("cuInit");
  return 0;
}

CUresult cuDriverGetVersion(int* version) {
  FAKE_ENTER("cuDriverGetVersion");
  *version = 12080;
  return 0;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  static const std::map<CUresult, const char*> names = {
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}};
  const auto found = names.find(code);
  if (found == names.end()) return kInvalidValue;
  *name = found->second;
  return 0;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  if (code != 100) return kInvalidValue;
  *text = "no CUDA-capable device is detected";
  return 0;
}

CUresult cuDeviceGetCount(int* count) {
  FAKE_ENTER("cuDeviceGetCount");
  *count = 1;
  return 0;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
  FAKE_ENTER("cuDeviceGet");
  *device = number;
  return number == 0 ? 0 : kInvalidDevice;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice /*device*/) {
  FAKE_ENTER("cuDeviceGetName");
  (void)std::snprintf(name, static_cast<size_t>(bytes), "Imagined GPU");
  return 0;
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice /*device*/) {
  FAKE_ENTER("cuDeviceGetAttribute");
  static const std::map<int, int> values = {{16, 4},    {38, 64 << 10}, {75, 9},
                                            {76, 0},    {13, 1980000},  {36, 3201000},
                                            {37, 6144}, {88, 0},        {97, 227 << 10}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return 0;
}

CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice /*device*/) {
  FAKE_ENTER("cuDeviceGetPCIBusId");
  (void)std::snprintf(text, static_cast<size_t>(bytes), "0000:01:00.0");
  return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice /*device*/) {
  FAKE_ENTER("cuDevicePrimaryCtxRetain");
  *context = nullptr;
  return 0;
}

CUresult cuCtxSetCurrent(CUcontext /*context*/) {
  FAKE_ENTER("cuCtxSetCurrent");
  return 0;
}

CUresult cuCtxSetLimit(int /*limit*/, size_t /*value*/) {
  FAKE_ENTER("cuCtxSetLimit");
  return 0;
}

CUresult cuCtxResetPersistingL2Cache() {
  FAKE_ENTER("cuCtxResetPersistingL2Cache");
  return 0;
}

CUresult cuCtxSynchronize() {
  FAKE_ENTER("cuCtxSynchronize");
  return Wait();
}

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  FAKE_ENTER("cuMemGetInfo_v2");
  *total = MemoryBytes();
  *free_bytes = *total - The().used;
  return 0;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* prop, int) {
  FAKE_ENTER("cuMemGetAllocationGranularity");
  *bytes = kPage;
  return prop->type == 1 && prop->location.type == 1 ? 0 : kInvalidValue;
}

CUresult cuMemAddressReserve(CUdeviceptr* where, size_t bytes, size_t, CUdeviceptr wish,
                             unsigned long long) {  // NOLINT(google-runtime-int)
  Log(wish != 0 ? "reserve " + std::to_string(wish) : "reserve");
  if (wish % kPage != 0) return kInvalidValue;
  if (wish != 0) FAKE_ENTER("cuMemAddressReserve a wish");
  FAKE_ENTER("cuMemAddressReserve");
  // As much again, to find a multiple of the page in.
  void* const got = ::mmap(reinterpret_cast<void*>(wish), bytes + kPage, PROT_NONE,  // NOLINT
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return kOutOfMemory;
  *where = (reinterpret_cast<CUdeviceptr>(got) + kPage - 1) / kPage * kPage;
  return 0;
}

CUresult cuMemAddressFree(CUdeviceptr, size_t) {
  FAKE_ENTER("cuMemAddressFree");
  return 0;  // the address is not used again, so that a late access is seen
}

CUresult cuMemCreate(CUmemHandle* handle, size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {  // NOLINT(google-runtime-int)
  FAKE_ENTER("cuMemCreate");
  Device& device = The();
  if (bytes == 0 || bytes % kPage != 0) return kInvalidValue;
  if (bytes > MemoryBytes() - device.used) return kOutOfMemory;
  device.used += bytes;
  *handle = device.next_handle++;
  device.handles[*handle] = bytes;
  return 0;
}

CUresult cuMemRelease(CUmemHandle handle) {
  FAKE_ENTER("cuMemRelease");
  Device& device = The();
  const auto found = device.handles.find(handle);
  if (found == device.handles.end()) return kInvalidValue;
  device.used -= found->second;
  device.handles.erase(found);
  return 0;
}

CUresult cuMemMap(CUdeviceptr where, size_t bytes, size_t, CUmemHandle handle,
                  unsigned long long) {  // NOLINT(google-runtime-int)
  FAKE_ENTER("cuMemMap");
  Device& device = The();
  if (where % kPage != 0 || device.handles.count(handle) == 0) return kInvalidValue;
  device.mapped[where] = {bytes, false};
  return 0;
}

CUresult cuMemUnmap(CUdeviceptr where, size_t bytes) {
  FAKE_ENTER("cuMemUnmap");
  if (The().mapped.erase(where) == 0) return kInvalidValue;
  (void)::mmap(reinterpret_cast<void*>(where), bytes, PROT_NONE,  // NOLINT
               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return 0;
}

CUresult cuMemSetAccess(CUdeviceptr where, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  FAKE_ENTER("cuMemSetAccess");
  const auto found = The().mapped.find(where);
  if (found == The().mapped.end() || count != 1 || access->flags != 3) return kInvalidValue;
  if (::mprotect(reinterpret_cast<void*>(where), bytes, PROT_READ | PROT_WRITE) != 0) {  // NOLINT
    return kOutOfMemory;
  }
  found->second.open = true;
  return 0;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  FAKE_ENTER("cuMemcpyHtoD_v2");
  if (unsigned char* where = Reach(to, bytes); bytes > 0 && where != nullptr) {
    std::memcpy(where, from, bytes);
  }
  return The().error;
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  FAKE_ENTER("cuMemcpyDtoH_v2");
  if (const unsigned char* where = Reach(from, bytes); bytes > 0 && where != nullptr) {
    std::memcpy(to, where, bytes);
  }
  return The().error;
}

CUresult cuMemHostRegister_v2(void*, size_t, unsigned) {
  FAKE_ENTER("cuMemHostRegister_v2");
  return 0;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemcpyDtoDAsync_v2");
  Copy(to, from, bytes);
  return The().error;
}

CUresult cuMemsetD8Async(CUdeviceptr where, unsigned char byte, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemsetD8Async");
  if (unsigned char* target = Reach(where, bytes)) std::memset(target, byte, bytes);
  return The().error;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  FAKE_ENTER("cuModuleLoadData");
  const std::string text = static_cast<const char*>(image);
  if (text.rfind("broken", 0) == 0) return kInvalidImage;
  auto made = std::make_unique<CUmod_st>();
  made->image = text;
  *module = made.get();
  The().modules.push_back(std::move(made));
  Log("module");
  return 0;
}

CUresult cuModuleUnload(CUmodule module) {
  FAKE_ENTER("cuModuleUnload");
  for (auto& known : The().modules) {
    if (known.get() != module) continue;
    known.reset();
    return 0;
  }
  return kInvalidValue;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  FAKE_ENTER("cuModuleGetFunction");
  const bool own = std::strncmp(name, "ke_", 3) == 0;
  if (Kernels().count(name) == 0) return kNotFound;
  if (own && module->image.find(std::string(".entry ") + name + "(") == std::string::npos) {
    return kNotFound;
  }
  module->functions.push_back(std::make_unique<CUfunc_st>());
  *function = module->functions.back().get();
  (*function)->name = name;
  return 0;
}

CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction) {
  FAKE_ENTER("cuFuncGetAttribute");
  *value = attribute == 4 ? 32 : attribute == 3 ? 8 : 16;  // registers, local, static shared
  return 0;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  FAKE_ENTER("cuFuncSetAttribute");
  if (attribute != 8 || value < 0 || value > (227 << 10)) return kInvalidValue;
  function->most_shared = static_cast<unsigned>(value);
  return 0;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t) {
  FAKE_ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  *blocks = 2048 / threads;
  return 0;
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block,
                        unsigned, unsigned, unsigned shared, CUstream, void** parameters, void**) {
  FAKE_ENTER("cuLaunchKernel");
  if (The().error != 0) return The().error;
  if (x == 0 || y == 0 || z == 0) return kInvalidValue;
  if (block > 1024) return kOutOfResources;
  if (shared > function->most_shared) return kInvalidValue;
  Log("launch " + function->name);
  The().clock_ns += kLaunchNs;
  ++function->launches;
  Kernels().at(function->name)({function, {x, y, z}, block, shared, parameters});
  return 0;
}

CUresult cuTensorMapEncodeTiled(void* out, int type, unsigned dimensions, CUdeviceptr address,
                                const uint64_t* shape, const uint64_t* strides, const uint32_t* box,
                                const uint32_t* every, int interleave, int swizzle, int promotion,
                                int nan) {
  FAKE_ENTER("cuTensorMapEncodeTiled");
  EncodedMap map = {};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): only the alignment is asked for
  const bool aligned = reinterpret_cast<uintptr_t>(out) % 64 == 0 && address % 16 == 0;
  if (!aligned || dimensions < 1 || dimensions > 5 || interleave != 0) return kInvalidValue;
  map.address = address;
  map.dimensions = dimensions;
  for (unsigned i = 0; i < dimensions; ++i) {
    if (every[i] != 1 || box[i] > 256) return kInvalidValue;
    map.shape[i] = shape[i];
    map.box[i] = box[i];
    if (i + 1 == dimensions) continue;
    if (strides[i] % 16 != 0) return kInvalidValue;
    map.strides[i] = strides[i];
  }
  map.type = static_cast<unsigned char>(type);
  map.swizzle = static_cast<unsigned char>(swizzle);
  map.promotion = static_cast<unsigned char>(promotion);
  map.nan = static_cast<unsigned char>(nan);
  std::memcpy(out, &map, sizeof map);
  return 0;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  FAKE_ENTER("cuStreamCreate");
  *stream = nullptr;
  return 0;
}

CUresult cuStreamSynchronize(CUstream) {
  FAKE_ENTER("cuStreamSynchronize");
  return Wait();
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  FAKE_ENTER("cuEventCreate");
  static std::vector<std::unique_ptr<CUevent_st>> events;
  events.push_back(std::make_unique<CUevent_st>());
  *event = events.back().get();
  return 0;
}

CUresult cuEventRecord(CUevent event, CUstream) {
  FAKE_ENTER("cuEventRecord");
  event->ns = The().clock_ns;
  Log("event");
  return 0;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  FAKE_ENTER("cuEventElapsedTime");
  *milliseconds = static_cast<float>(end->ns - begin->ns) * 1e-6F;
  return The().error;
}

}  // extern "C"

}  // namespace kernel_evolve::replay
