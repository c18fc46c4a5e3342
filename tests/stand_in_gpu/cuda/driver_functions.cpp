// Functions of the driver that LibTorch looks up by name through the runtime. Those of virtual memory, which its expandable
// segments are made of, are here; the others answer that they are not supported.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <string_view>

#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/cuda/memory.hpp"
#include "tests/stand_in_gpu/cuda/streams.hpp"

namespace {

using namespace panpipe::stand_in;

CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult error_text(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "not supported by the stand-in GPU";
  return CUDA_SUCCESS;
}

// Physical memory: a number of bytes of a device, which has no addresses until it is mapped.
struct Physical {
  int device;
  std::size_t size;
};
struct Handles {
  std::mutex lock;
  std::map<CUmemGenericAllocationHandle, Physical> all;
  CUmemGenericAllocationHandle next = 1;
};
Handles& handles() {
  static auto* instance = new Handles;
  return *instance;
}

void* as_address(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
// Handles are not shared between processes, and devices have no fabric.
CUresult device_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}
// 2 MiB, as CUDA answers on every device of today.
CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = std::size_t{2} << 20;
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* address, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  *address = reinterpret_cast<CUdeviceptr>(reserve_addresses(size));
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult release_reserved(CUdeviceptr address, std::size_t size) {
  release_addresses(as_address(address), size);
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* properties,
                unsigned long long) {
  const int device = properties->location.id;
  if (!take_memory(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard hold(handles().lock);
  *handle = handles().next++;
  handles().all[*handle] = {device, size};
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard hold(handles().lock);
  const auto found = handles().all.find(handle);
  if (found == handles().all.end()) return CUDA_ERROR_INVALID_VALUE;
  give_memory_back(found->second.device, found->second.size);
  handles().all.erase(found);
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr address, std::size_t size, std::size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  const std::lock_guard hold(handles().lock);
  add_device_memory(as_address(address), size, handles().all.at(handle).device);
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, std::size_t size) {
  wait_for_device(device_of(as_address(address)));
  remove_device_memory(as_address(address));
  madvise(as_address(address), size, MADV_DONTNEED);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) { return CUDA_SUCCESS; }

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string_view, void*> known = {{"cuGetErrorString", pointer(error_text)},
                                                          {"cuDeviceGet", pointer(device_get)},
                                                          {"cuDeviceGetAttribute", pointer(device_attribute)},
                                                          {"cuMemGetAllocationGranularity", pointer(granularity)},
                                                          {"cuMemAddressReserve", pointer(reserve)},
                                                          {"cuMemAddressFree", pointer(release_reserved)},
                                                          {"cuMemCreate", pointer(create)},
                                                          {"cuMemRelease", pointer(release)},
                                                          {"cuMemMap", pointer(map)},
                                                          {"cuMemUnmap", pointer(unmap)},
                                                          {"cuMemSetAccess", pointer(set_access)}};
  const auto found = known.find(name);
  *function = found == known.end() ? pointer(not_supported) : found->second;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
