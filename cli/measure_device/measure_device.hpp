// What `panpipe measure-device` does: measures a card or this CPU, and writes a device file.
#pragma once

#include <string>

namespace panpipe::cli {

struct MeasureDeviceRequest {
  std::string device;  // cpu | cuda | cuda:N; empty = cuda if there are GPUs
  std::string output;
  double minutes = 5;
  bool json = false;
};

// Returns the exit code. Throws InputError, MachineError.
int measure_device(const MeasureDeviceRequest& request);

}  // namespace panpipe::cli
