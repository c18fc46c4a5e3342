// Stands for the driver's library, libcuda.so.1: LibTorch asks it whether a device has been used, and for the thread's context.
#include <cuda.h>

#include "tests/stand_in_gpu/settings.hpp"

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = panpipe::stand_in::cuda_of_driver();
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
// One context for all, without content.
CUresult cuCtxGetCurrent(CUcontext* context) {
  static char any;
  *context = reinterpret_cast<CUcontext>(&any);
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "not supported by the stand-in GPU";
  return CUDA_SUCCESS;
}
}
