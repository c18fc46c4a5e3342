// The hops of a ring over devices within nodes. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/calibration.hpp"

namespace panpipe {

struct RingHops {
  bool switched = true;  // every hop goes through its node's switch
  bool nvlink = true;    // every hop uses NVLink; its rate is the wire's, of which software reaches a share
  double bandwidth = 0;  // of each hop while all are busy, bytes per second of the wire
  double latency = 0;    // of the slowest, seconds

  // The reached rate. Links through the host already state measured rates.
  double reached(const Calibration& calibration) const { return nvlink ? bandwidth * calibration.fabric_efficiency : bandwidth; }
};

// Hops from each device to the next and from the last to the first, without hops between nodes. If none remains, the first node's
// fabric is used.
RingHops ring_hops(const Cluster& cluster, const std::vector<int>& devices);

}  // namespace panpipe
