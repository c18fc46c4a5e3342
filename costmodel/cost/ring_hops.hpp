// The hops of a ring over devices that lie inside nodes. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/calibration.hpp"

namespace panpipe {

struct RingHops {
  bool switched = true;  // each goes through its node's switch
  bool nvlink = true;    // each goes over NVLink: its rate is the wire's, of which software reaches a share
  double bandwidth = 0;  // bytes per second of the wire that each gets while all are busy
  double latency = 0;    // of the slowest, seconds

  // Links through the host are stated as measured.
  double reached(const Calibration& calibration) const { return nvlink ? bandwidth * calibration.fabric_efficiency : bandwidth; }
};

// From each device to the next and from the last to the first; hops between nodes are left out. Without a hop the first node's
// fabric stands for it.
RingHops ring_hops(const Cluster& cluster, const std::vector<int>& devices);

}  // namespace panpipe
