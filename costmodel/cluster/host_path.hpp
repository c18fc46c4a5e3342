// The way between a device and its host's memory: what offloads and reloads take, and which devices share it.
#pragma once

#include <optional>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Wirings that know their hosts.
class HostPaths {
 public:
  virtual ~HostPaths() = default;
  virtual std::optional<Route> host_path(int device, bool away) const = 0;
};

// From the device to its socket's memory (`away`) or back: its PCIe link, the upstream link of its switch, that memory. Without
// latency: copies are large. Empty where the cluster does not say how the device reaches its host: nothing is shared then.
std::optional<Route> host_path(const Cluster& cluster, int device, bool away);

// What such a copy gets alone: the device's copy_bandwidth, or less where its way is narrower. 0 when the device states none.
Bandwidth host_copy_bandwidth(const Cluster& cluster, int device, bool away);
// What it gets while all of `devices` copy in that direction: a fair share of every link of its way.
Bandwidth shared_host_copy_bandwidth(const Cluster& cluster, const std::vector<int>& devices, int device, bool away);

}  // namespace panpipe
