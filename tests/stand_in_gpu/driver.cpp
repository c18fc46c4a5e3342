// Stands for the driver's library, libcuda.so.1: LibTorch asks it whether a device has been used, and nothing else.
#include <cuda.h>

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "not supported by the stand-in GPU";
  return CUDA_SUCCESS;
}
}
