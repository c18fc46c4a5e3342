#include "costmodel/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe {

ComputeRate DeviceType::peak_for(Precision precision) const {
  const auto found = peak.find(precision);
  if (found != peak.end()) return found->second;
  if (precision == Precision::Bf16Pure) return peak_for(Precision::Bf16);
  if (precision == Precision::Fp16Pure) return peak_for(Precision::Fp16);
  return ComputeRate(0);
}

std::string_view name_of(PathClass path) {
  constexpr std::string_view kNames[] = {"local", "bridge", "switch", "peer-pcie", "host", "host-sockets", "network", "given"};
  return kNames[at(path)];
}

std::string_view name_of(ResourceClass resource) {
  constexpr std::string_view kNames[] = {"bridge",      "switch port", "PCIe link",   "PCIe root", "host memory",
                                         "socket link", "NIC",         "leaf uplink", "spine",     "given link"};
  return kNames[at(resource)];
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
