// The path between a device and its host's memory, which offloads and reloads take, and its sharing with other devices.
#pragma once

#include <optional>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Interface of wirings that know the paths to their hosts.
class HostPaths {
 public:
  virtual ~HostPaths() = default;
  virtual std::optional<Route> host_path(int device, bool away) const = 0;
};

// From the device to its socket's memory (`away`) or back: its PCIe link, the upstream link of its switch, and that memory.
// Latency is left out, since copies are large. nullopt if the cluster does not state how the device reaches its host; nothing is
// shared then.
std::optional<Route> host_path(const Cluster& cluster, int device, bool away);

// Bandwidth of a lone copy: the device's copy_bandwidth, or less where its path is narrower. 0 if the device states none.
Bandwidth host_copy_bandwidth(const Cluster& cluster, int device, bool away);
// Bandwidth while all of `devices` copy in that direction: a fair share of every link on the path.
Bandwidth shared_host_copy_bandwidth(const Cluster& cluster, const std::vector<int>& devices, int device, bool away);

}  // namespace panpipe
