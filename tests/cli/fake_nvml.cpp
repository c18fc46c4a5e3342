// A driver's library of two GPUs, for machines that have none: the functions of NVML that `panpipe doctor` asks.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "550.54.15", length);
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int devices[2];
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::strncpy(text, "Imaginary GPU", length);
  return 0;
}
struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {8ULL << 30, 6ULL << 30, 2ULL << 30};
  return 0;
}
}
