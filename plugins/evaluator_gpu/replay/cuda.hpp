// The part of the CUDA driver API that a replay needs, opened at run time: the program starts, and
// says what is missing, on a machine without a GPU. Types and values are those of cuda.h, which is
// not needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace kernel_evolve::replay {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;  // NOLINT(google-runtime-int): as in cuda.h
using CUmemHandle = unsigned long long;  // NOLINT(google-runtime-int)
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

struct CUmemLocation {
  int type;  // 1: a device
  int id;
};
struct CUmemAllocationProp {
  int type;  // 1: pinned
  int handle_types;
  CUmemLocation location;
  void* win32;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;  // 3: read and write
};

// A call of the driver that failed.
class CudaError : public std::runtime_error {
 public:
  CudaError(CUresult code, const std::string& text) : std::runtime_error(text), code_(code) {}
  CUresult code() const { return code_; }

 private:
  CUresult code_;
};

// The driver is missing or too old; the text is one sentence.
class NoDriver : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// X(member, exported name, argument types). Every one returns a CUresult.
#define KE_CUDA_FUNCTIONS(X)                                                                       \
  X(init, "cuInit", unsigned)                                                                      \
  X(driver_version, "cuDriverGetVersion", int*)                                                    \
  X(error_name, "cuGetErrorName", CUresult, const char**)                                          \
  X(error_string, "cuGetErrorString", CUresult, const char**)                                      \
  X(device_count, "cuDeviceGetCount", int*)                                                        \
  X(device_get, "cuDeviceGet", CUdevice*, int)                                                     \
  X(device_name, "cuDeviceGetName", char*, int, CUdevice)                                          \
  X(device_attribute, "cuDeviceGetAttribute", int*, int, CUdevice)                                 \
  X(device_bus_id, "cuDeviceGetPCIBusId", char*, int, CUdevice)                                    \
  X(retain_context, "cuDevicePrimaryCtxRetain", CUcontext*, CUdevice)                              \
  X(set_context, "cuCtxSetCurrent", CUcontext)                                                     \
  X(set_limit, "cuCtxSetLimit", int, size_t)                                                       \
  X(reset_persisting, "cuCtxResetPersistingL2Cache")                                               \
  X(synchronize, "cuCtxSynchronize")                                                               \
  X(memory_info, "cuMemGetInfo_v2", size_t*, size_t*)                                              \
  X(granularity, "cuMemGetAllocationGranularity", size_t*, const CUmemAllocationProp*, int)        \
  X(reserve, "cuMemAddressReserve", CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long) \
  X(free_address, "cuMemAddressFree", CUdeviceptr, size_t)                                         \
  X(create, "cuMemCreate", CUmemHandle*, size_t, const CUmemAllocationProp*, unsigned long long)   \
  X(release, "cuMemRelease", CUmemHandle)                                                          \
  X(map, "cuMemMap", CUdeviceptr, size_t, size_t, CUmemHandle, unsigned long long)                 \
  X(unmap, "cuMemUnmap", CUdeviceptr, size_t)                                                      \
  X(set_access, "cuMemSetAccess", CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)             \
  X(copy_to_device, "cuMemcpyHtoD_v2", CUdeviceptr, const void*, size_t)                           \
  X(copy_to_host, "cuMemcpyDtoH_v2", void*, CUdeviceptr, size_t)                                   \
  X(register_host, "cuMemHostRegister_v2", void*, size_t, unsigned)                                \
  X(copy, "cuMemcpyDtoDAsync_v2", CUdeviceptr, CUdeviceptr, size_t, CUstream)                      \
  X(fill, "cuMemsetD8Async", CUdeviceptr, unsigned char, size_t, CUstream)                         \
  X(load_module, "cuModuleLoadData", CUmodule*, const void*)                                       \
  X(unload_module, "cuModuleUnload", CUmodule)                                                     \
  X(get_function, "cuModuleGetFunction", CUfunction*, CUmodule, const char*)                       \
  X(function_attribute, "cuFuncGetAttribute", int*, int, CUfunction)                               \
  X(set_function_attribute, "cuFuncSetAttribute", CUfunction, int, int)                            \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", int*, CUfunction, int, size_t)       \
  X(launch, "cuLaunchKernel", CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,        \
    unsigned, unsigned, CUstream, void**, void**)                                                  \
  X(encode_tensor_map, "cuTensorMapEncodeTiled", void*, int, unsigned, CUdeviceptr,                \
    const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int)        \
  X(create_stream, "cuStreamCreate", CUstream*, unsigned)                                          \
  X(wait_stream, "cuStreamSynchronize", CUstream)                                                  \
  X(create_event, "cuEventCreate", CUevent*, unsigned)                                             \
  X(record, "cuEventRecord", CUevent, CUstream)                                                    \
  X(elapsed, "cuEventElapsedTime", float*, CUevent, CUevent)

class Cuda {
 public:
  // Opens libcuda.so.1 and finds every function. Throws NoDriver.
  Cuda();
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  // Throws CudaError unless `code` is success; `doing` says what failed.
  void Check(CUresult code, const char* doing) const;
  std::string NameOf(CUresult code) const;

#define KE_CUDA_MEMBER(member, name, ...) CUresult (*member)(__VA_ARGS__) = nullptr;
  KE_CUDA_FUNCTIONS(KE_CUDA_MEMBER)
#undef KE_CUDA_MEMBER
};

}  // namespace kernel_evolve::replay
