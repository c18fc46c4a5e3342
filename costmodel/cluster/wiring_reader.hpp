// Reads the keys under `wiring:` and `network:` of a cluster file.
#pragma once

#include "base/input/reader.hpp"
#include "costmodel/cluster/assemble.hpp"

namespace panpipe {

// `devices` is the number per node; 0 if a topology matrix decides (wiring.devices then holds the number).
NodeWiring read_wiring(const Node* node, int devices, const DeviceType& type, ReadLog& log);

// Faults are logged.
NetworkParameters read_network(const Node& node, ReadLog& log);

}  // namespace panpipe
