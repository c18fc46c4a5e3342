#include "costmodel/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace panpipe {

ComputeRate DeviceType::peak_for(Precision precision) const {
  const auto found = peak.find(precision);
  if (found != peak.end()) return found->second;
  if (precision == Precision::Bf16Pure) return peak_for(Precision::Bf16);
  if (precision == Precision::Fp16Pure) return peak_for(Precision::Fp16);
  return ComputeRate(0);
}

std::string_view name_of(PathClass path) {
  switch (path) {
    case PathClass::Local:
      return "local";
    case PathClass::Bridge:
      return "bridge";
    case PathClass::Switch:
      return "switch";
    case PathClass::PeerPcie:
      return "peer-pcie";
    case PathClass::Host:
      return "host";
    case PathClass::HostSockets:
      return "host-sockets";
    case PathClass::Network:
      return "network";
    case PathClass::Given:
      return "given";
  }
  return "?";
}

std::string_view name_of(ResourceClass resource) {
  switch (resource) {
    case ResourceClass::BridgeLink:
      return "bridge";
    case ResourceClass::SwitchPort:
      return "switch port";
    case ResourceClass::PcieLink:
      return "PCIe link";
    case ResourceClass::PcieRoot:
      return "PCIe root";
    case ResourceClass::HostMemory:
      return "host memory";
    case ResourceClass::SocketLink:
      return "socket link";
    case ResourceClass::Nic:
      return "NIC";
    case ResourceClass::LeafUplink:
      return "leaf uplink";
    case ResourceClass::Spine:
      return "spine";
    case ResourceClass::GivenLink:
      return "given link";
  }
  return "?";
}

Duration TransferTable::at(Bytes size) const {
  PANPIPE_CHECK(!points.empty(), "a transfer table has at least one point");
  if (points.size() == 1 || size <= points.front().first) return points.front().second;
  // The segment that ends at the first point not below `size`; beyond the last point the last segment continues.
  const auto above = std::lower_bound(points.begin() + 1, points.end() - 1, size,
                                      [](const auto& point, Bytes value) { return point.first < value; });
  const auto& [left_size, left_time] = *(above - 1);
  const auto& [right_size, right_time] = *above;
  return left_time + (right_time - left_time) * ((size - left_size) / (right_size - left_size));
}

Duration Route::time_alone(Bytes size) const {
  if (path == PathClass::Local) return Duration(0);
  if (table) return table->at(size);
  return latency + size / bandwidth;
}

std::string device_name(const Cluster& cluster, int device) {
  const Device& place = cluster.devices[device];
  const std::string& kind = cluster.type_of(device).kind;
  return fmt::format("node{}.{}{}", place.node, kind == "given" ? "device" : kind, place.index_in_node);
}

}  // namespace panpipe
