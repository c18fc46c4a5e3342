// The output of `panpipe check --links`: bandwidth and latency of every pair of devices, and their shared resources.
#pragma once

#include <string>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// As text. For a cluster of more than 16 devices it shows one node of each kind and one pair between nodes, and states so.
std::string links_matrix(const Cluster& cluster);

// The same pairs as a JSON document, schema panpipe-links/1. Bandwidth null means unlimited; a pair without a path has "class":
// null. Keys: docs/models/topology.md.
std::string links_json(const Cluster& cluster);

}  // namespace panpipe
