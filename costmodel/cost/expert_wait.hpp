// The device waits for a host that had no lead. Internal to this folder.
#pragma once

#include <vector>

#include "base/quantity.hpp"

namespace panpipe {

// Equal kernels that the host launches one after another: its time for all of them, and the device's.
struct LaunchedKernels {
  double count = 1;
  Duration host{0}, device{0};
};

// How long the device stands still until it has done these kernels, if the host begins to launch them when the device has nothing
// to do: the most that the host's clock, at the launch of a kernel, lies behind the device's at the end of the kernels before.
Duration idle_behind_host(const std::vector<LaunchedKernels>& kernels);

}  // namespace panpipe
