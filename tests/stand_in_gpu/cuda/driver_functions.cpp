// Functions of the driver that LibTorch looks up by name through the runtime: each answers that it is not supported.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string_view>

namespace {

CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult error_text(CUresult, const char** text) {
  *text = "not supported by the stand-in GPU";
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  *function = name == std::string_view("cuGetErrorString") ? reinterpret_cast<void*>(&error_text)
                                                           : reinterpret_cast<void*>(&not_supported);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
