#include "tests/stand_in_gpu/cuda/devices.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/stand_in_gpu/cuda/streams.hpp"
#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

constexpr int kRuntimeVersion = 13000;  // of libcudart.so.13: 13.0

std::atomic<bool>& broken() {
  static std::atomic<bool> state{false};
  return state;
}

thread_local int this_threads_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

// CUDA takes the list up to the first number that is no device.
std::vector<int> visible_devices() {
  const int all = static_cast<int>(number_setting("STAND_IN_GPUS", 8));
  std::vector<int> found;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) {
    for (int device = 0; device < all; ++device) found.push_back(device);
    return found;
  }
  for (const std::string& part : split(list, ',')) {
    char* end = nullptr;
    const long device = std::strtol(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || device < 0 || device >= all) break;
    found.push_back(static_cast<int>(device));
  }
  return found;
}

const std::vector<int>& devices() {
  static const std::vector<int> found = visible_devices();
  return found;
}

// The words are those of CUDA's runtime.
struct NamedError {
  cudaError_t error;
  const char *name, *words;
};
constexpr NamedError kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};
NamedError named(cudaError_t error) {
  for (const NamedError& known : kErrors)
    if (known.error == error) return known;
  return {error, "cudaErrorUnknown", "unknown error"};
}

// The kernels are LibTorch's on the CPU (kernels/install.cpp). They can take the place of CUDA's only after LibTorch has
// registered those, which is when it first asks for devices; a process that never asks pays nothing for them.
void load_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Without LibTorch in the process there is nothing to replace.
    if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD)) return;
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&stand_in_enqueue), &here);
    const std::string path = std::filesystem::path(here.dli_fname).replace_filename("libstand_in_kernels.so");
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) std::fprintf(stderr, "stand-in GPU: %s\n", dlerror());
  });
}

}  // namespace

int device_count() { return static_cast<int>(devices().size()); }
int physical_device(int device) { return devices().at(static_cast<std::size_t>(device)); }
int current_device() { return this_threads_device; }
void set_current_device(int device) { this_threads_device = device; }
std::size_t device_memory() { return static_cast<std::size_t>(number_setting("STAND_IN_MEMORY_MIB", 4096)) << 20; }

Capability capability() {
  static const Capability asked = [] {
    const std::string value = text_setting("STAND_IN_CAPABILITY", "8.6");
    int major = 0, minor = 0;
    if (std::sscanf(value.c_str(), "%d.%d", &major, &minor) != 2) refuse_setting("STAND_IN_CAPABILITY", value, "as in 9.0");
    return Capability{major, minor};
  }();
  return asked;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t health() { return broken() ? remember(cudaErrorAssert) : cudaSuccess; }

}  // namespace panpipe::stand_in

using namespace panpipe::stand_in;

extern "C" {

void stand_in_break(const char* why) {
  if (!broken().exchange(true)) std::fprintf(stderr, "stand-in GPU: %s\n", why);
}

cudaError_t cudaGetDeviceCount(int* count) {
  load_kernels();
  *count = 0;
  if (cuda_of_driver() < kRuntimeVersion) return remember(cudaErrorInsufficientDriver);
  *count = device_count();
  return *count > 0 ? cudaSuccess : remember(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

// STAND_IN_SPIN decides how hosts wait.
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

// As between consumer cards: copies from one device to another go through the runtime.
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return remember(cudaErrorPeerAccessUnsupported); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  // The sizes are those of an RTX 3090 (NVIDIA Ampere GA102 white paper, compute capability 8.6).
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Stand-in GPU");
  properties->totalGlobalMem = device_memory();
  properties->major = capability().major;
  properties->minor = capability().minor;
  properties->multiProcessorCount = 82;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 1536;
  properties->maxBlocksPerMultiProcessor = 16;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 99 << 10;
  properties->sharedMemPerMultiprocessor = 100 << 10;
  properties->regsPerMultiprocessor = 64 << 10;
  properties->regsPerBlock = 64 << 10;
  properties->l2CacheSize = 6 << 20;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->pciBusID = physical_device(device) + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  const std::pair<cudaDeviceAttr, std::int64_t> known[] = {
      {cudaDevAttrComputeCapabilityMajor, properties.major},
      {cudaDevAttrComputeCapabilityMinor, properties.minor},
      {cudaDevAttrMultiProcessorCount, properties.multiProcessorCount},
      {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<std::int64_t>(properties.sharedMemPerBlock)},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<std::int64_t>(properties.sharedMemPerBlockOptin)},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor)},
      {cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, properties.maxThreadsPerMultiProcessor},
      {cudaDevAttrWarpSize, properties.warpSize},
      {cudaDevAttrMaxGridDimX, properties.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, properties.maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, properties.maxGridSize[2]},
  };
  *value = 0;
  for (const auto& [name, number] : known)
    if (name == attribute) *value = static_cast<int>(number);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", physical_device(device) + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  wait_for_device(current_device());
  return health();
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = cuda_of_driver();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) { return named(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return named(error).words; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
}
