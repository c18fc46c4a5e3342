// What a cluster's wiring knows beyond routes: rails of the network, switches that sum, single slow devices and degraded links.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// A device whose passes take `slowdown` times as long as those of its type.
struct SlowDevice {
  int device = 0;
  double slowdown = 1;
};

// Resources that carry only a share of their bandwidth. `link` is a resource's name, or of its two directions ("node0.nic3").
struct DegradedLink {
  std::string link;
  double share = 1;
};

struct Fabric {
  int rails = 0;             // NICs of equal number have switches of their own; 0: a node is a leaf
  Bandwidth rail_uplink{0};  // of the switches of one rail to the spine, one direction; 0: never a limit
  bool reduces = false;      // the network's switches sum (SHARP)
  // False where it matters which of its node's devices, or of equal nodes, a device is: rails, degraded links.
  bool alike = true;
  std::vector<SlowDevice> slow;          // as stated; the cluster's types and devices follow
  std::vector<DegradedLink> degraded;    // as stated; its resources and routes follow
  std::shared_ptr<const Cluster> sound;  // without both; null: the cluster itself
  std::vector<double> slowdown;          // by type, of types that passes are slow on; further types: 1
  std::vector<double> clock;             // by type: the share of the data sheet's clock that `peak` holds; further types: 1
};

// Interface of wirings that have one.
class HasFabric {
 public:
  virtual ~HasFabric() = default;
  virtual const Fabric& fabric() const = 0;
};

// The cluster's; a sound one without rails where its wiring has none. Valid as long as the wiring.
const Fabric& fabric_of(const Cluster& cluster);

double slowdown_of_type(const Cluster& cluster, int type);
double clock_of_type(const Cluster& cluster, int type);

int rail_of(const Cluster& cluster, const Fabric& fabric, int device);
// Whether what a device sends to another node's device crosses the spine.
bool crosses_spine(const Cluster& cluster, const Fabric& fabric, int from, int to);
// The member of `group` to which `from` sends in a ring whose next member is `next`: in another node the one on its own rail, if
// the network has rails and the node such a member.
int ring_neighbour(const Cluster& cluster, const std::vector<int>& group, int from, int next);

}  // namespace panpipe
