// Single slow devices and degraded links, laid over a cluster: `cluster.slow`, `cluster.degraded`.
#pragma once

#include "base/input/reader.hpp"
#include "costmodel/cluster/fabric.hpp"

namespace panpipe {

// Reads both keys, where a map of the cluster has them, and changes the cluster: a slow device becomes one of a type of its own,
// a degraded link's resources lose bandwidth, and routes follow. Logs a device or a link that does not exist, and factors that
// are not positive. Marks both keys; after other faults that is all.
void read_impairments(MapReader& reader, Cluster& cluster);

// The same for what is already read; every link must exist.
Cluster impaired(Cluster cluster, const std::vector<SlowDevice>& slow, const std::vector<DegradedLink>& degraded);

}  // namespace panpipe
