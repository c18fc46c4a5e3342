// The request of `panpipe-exec device`, which measures one card or this CPU for `panpipe measure-device`, and its start.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace panpipe::exec {

struct DeviceRequest {
  std::string device = "cpu";  // cpu | cuda | cuda:N
  double seconds = 300;        // about how long all measurements may take
};

// The number of the card: 0 for cuda, N for cuda:N; -1 for the CPU. Throws InputError for other words.
int card_of(const std::string& device);

void add_device_options(CLI::App& app, DeviceRequest& request);

// Becomes panpipe-exec, which prints a line of JSON per measurement, as exec/engine/profile/device_meter.hpp states them. Throws
// MachineError with an explanation if this build has no executor.
int launch_device(const DeviceRequest& request);

}  // namespace panpipe::exec
