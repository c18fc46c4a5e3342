// The keys under `wiring:` and `network:` of a cluster file.
#pragma once

#include <optional>

#include "base/input/reader.hpp"
#include "costmodel/cluster/assemble.hpp"

namespace panpipe {

// `devices`: how many a node has; 0 when a topology matrix is to say (wiring.devices then holds it).
NodeWiring read_wiring(const Node* node, int devices, const DeviceType& type, ReadLog& log);

// Faults go to the log.
NetworkParameters read_network(const Node& node, ReadLog& log);

}  // namespace panpipe
