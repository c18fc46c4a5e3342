// Implements `panpipe-exec device`: measures one card, or this CPU, apart from any model.
#pragma once

#include "exec/launch/device_request.hpp"

namespace panpipe::exec {

// Prints a line of JSON per measurement (device_meter.hpp). Throws MachineError without a card, InputError for a number that no
// card has.
int execute_device(const DeviceRequest& request);

}  // namespace panpipe::exec
