// A driver's library that knows two devices (launch_test.cpp).
extern "C" {

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
}
