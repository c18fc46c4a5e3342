// Signs that a device was measured while something else ran on it.
#pragma once

#include "cli/measure_device/device_file.hpp"

namespace panpipe::cli {

// Adds a note for each sign, and the fact `may_be_faster`: by which share the device may be faster alone. Nothing where it
// was alone as far as its signs show. calibration_of() widens its numbers by that share.
void note_other_work(MeasuredDevice& device);

}  // namespace panpipe::cli
