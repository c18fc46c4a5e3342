// Reads the matrix of `nvidia-smi topo -m` into the wiring of a node.
#pragma once

#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/cluster/node_wiring.hpp"

namespace panpipe {

struct NvlinkPair {
  int first = 0, second = 0;
  int links = 0;  // the number in NV#
};

struct TopologyMatrix {
  int devices = 0;
  std::vector<std::vector<std::string>> cells;  // device x device: "X", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS"
  std::vector<std::string> nics;                // "NIC0" or "mlx5_0", in order
  std::vector<bool> near;                       // of each adapter: behind the same PCIe switch as a device (PIX, PXB)
  std::vector<NvlinkPair> nvlinks;              // first < second
  std::vector<std::vector<int>> roots;          // devices behind the same PCIe switch (PIX, PXB), groups of two or more
  std::vector<std::vector<int>> sockets;  // devices that communicate without crossing sockets (all but SYS), by lowest device
};

// Finds the matrix in the program's output. Skips surrounding text, the legend and colours; columns may be separated by tabs or
// spaces. Two devices joined by NVLink show no PCIe relation, so their sockets are inferred from third devices and from the CPU
// affinity column. Throws InputError with the place of the fault; `name` identifies the text in messages.
TopologyMatrix parse_topology_matrix(const std::string& text, const std::string& name);

// True if the NVLinks must lead to a switch: the matrix shows more of them than the device has.
bool has_nvswitch(const TopologyMatrix& matrix, const DeviceType& type);

// Builds the wiring from the matrix and the device's own link bandwidths (nvlink, copy_bandwidth). Latencies, staged copies and
// the link between sockets are not in a matrix; they get the values of docs/models/topology.md.
NodeWiring wiring_from_matrix(const TopologyMatrix& matrix, const DeviceType& type);

// A cluster of one node with this wiring. Throws InputError.
Cluster read_topology_matrix(const std::string& text, const std::string& name, const DeviceType& type);

}  // namespace panpipe
