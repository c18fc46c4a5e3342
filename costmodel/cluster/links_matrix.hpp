// What `panpipe check --links` shows: bandwidth and latency of every pair of devices, and what they share.
#pragma once

#include <string>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Text. Of a cluster of more than 16 devices one node of each kind is shown, and one pair between nodes; the text says so.
std::string links_matrix(const Cluster& cluster);

// The same pairs as a JSON document, schema panpipe-links/1; bandwidth null = unlimited, a pair that is not joined has
// "class": null. Keys: docs/models/topology.md.
std::string links_json(const Cluster& cluster);

}  // namespace panpipe
