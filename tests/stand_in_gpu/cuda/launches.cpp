// Kernels that LibTorch's libraries bring with them. None of them can run here: the operators that would launch them are replaced
// (kernels/). A kernel that is launched all the same is named, and fails. Without arithmetic (STAND_IN_ARITHMETIC=0) operators
// are CUDA's own, which allocate what they need, and launching a kernel does nothing.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/stand_in_gpu/cuda/counts.hpp"
#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace {

using panpipe::stand_in::capability;
using panpipe::stand_in::remember;

// Tens of thousands are registered when LibTorch is loaded: kept as they come, looked up when one is launched.
struct Kernels {
  std::mutex lock;
  std::vector<std::pair<const void*, const char*>> names;
};
Kernels& registered() {
  static auto* instance = new Kernels;
  return *instance;
}

// With arithmetic a kernel of CUDA's is a hole in the stand-in; without, it does nothing.
cudaError_t launch(const void* kernel) {
  if (!panpipe::stand_in::computes()) {
    panpipe::stand_in::count("kernels");
    return cudaSuccess;
  }
  const std::lock_guard hold(registered().lock);
  const char* name = "one that nobody registered";
  for (const auto& [address, text] : registered().names)
    if (address == kernel) name = text;
  std::fprintf(stderr, "stand-in GPU: a kernel was launched, and no operator of LibTorch's stands for it here: %.300s\n", name);
  return remember(cudaErrorInvalidDeviceFunction);
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle[4];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaInitModule(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard hold(registered().lock);
  registered().names.emplace_back(host, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) { return launch(kernel); }
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) { return launch(function); }
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) {
  return launch(function);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* function, void**) { return launch(function); }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->binaryVersion = attributes->ptxVersion = 10 * capability().major + capability().minor;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void**, const void*) { return remember(cudaErrorNotSupported); }
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return remember(cudaErrorNotSupported);
}
}
