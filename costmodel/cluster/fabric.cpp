#include "costmodel/cluster/fabric.hpp"

#include "base/index.hpp"

namespace panpipe {
namespace {

double of_type(const std::vector<double>& values, int type) { return at(type) < values.size() ? values[at(type)] : 1; }

}  // namespace

const Fabric& fabric_of(const Cluster& cluster) {
  static const Fabric kSound;
  const auto* has = dynamic_cast<const HasFabric*>(cluster.wiring.get());
  return has != nullptr ? has->fabric() : kSound;
}

double slowdown_of_type(const Cluster& cluster, int type) { return of_type(fabric_of(cluster).slowdown, type); }
double clock_of_type(const Cluster& cluster, int type) { return of_type(fabric_of(cluster).clock, type); }

int rail_of(const Cluster& cluster, const Fabric& fabric, int device) {
  return cluster.devices[at(device)].index_in_node * fabric.rails / cluster.node_of(device).devices;
}

bool crosses_spine(const Cluster& cluster, const Fabric& fabric, int from, int to) {
  return fabric.rails == 0 || rail_of(cluster, fabric, from) != rail_of(cluster, fabric, to);
}

int ring_neighbour(const Cluster& cluster, const std::vector<int>& group, int from, int next) {
  const Fabric& fabric = fabric_of(cluster);
  const std::int32_t node = cluster.devices[at(next)].node;
  if (fabric.rails == 0 || cluster.devices[at(from)].node == node) return next;
  for (const int member : group)
    if (cluster.devices[at(member)].node == node && !crosses_spine(cluster, fabric, from, member)) return member;
  return next;
}

}  // namespace panpipe
