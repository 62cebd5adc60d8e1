#include "cuda.hpp"

#include <dlfcn.h>

namespace kernel_evolve::replay {
namespace {

template <typename F>
void Find(void* library, const char* name, F* function) {
  void* const address = ::dlsym(library, name);
  if (address == nullptr) {
    throw NoDriver(std::string("the NVIDIA driver lacks ") + name +
                   "; install a driver for CUDA 12.0 or later");
  }
  *function = reinterpret_cast<F>(address);
}

}  // namespace

Cuda::Cuda() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw NoDriver(
        "there is no NVIDIA driver (libcuda.so.1) here; run on a machine with an NVIDIA "
        "GPU, or use the evaluator 'simulator'");
  }
#define KE_CUDA_FIND(member, name, ...) Find(library, name, &member);
  KE_CUDA_FUNCTIONS(KE_CUDA_FIND)
#undef KE_CUDA_FIND
}

std::string Cuda::NameOf(CUresult code) const {
  const char* name = nullptr;
  if (error_name(code, &name) != 0 || name == nullptr) return "error " + std::to_string(code);
  return name;
}

void Cuda::Check(CUresult code, const char* doing) const {
  if (code == 0) return;
  const char* text = nullptr;
  std::string message = std::string(doing) + ": " + NameOf(code);
  if (error_string(code, &text) == 0 && text != nullptr) message += std::string(" (") + text + ")";
  throw CudaError(code, message);
}

}  // namespace kernel_evolve::replay
