// The matrix that `nvidia-smi topo -m` prints -> how a node is wired.
#pragma once

#include <string>
#include <vector>

#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

struct NvlinkPair {
  int first = 0, second = 0;
  int links = 0;  // the # of NV#
};

struct TopologyMatrix {
  int devices = 0;
  std::vector<std::vector<std::string>> cells;  // device x device: "X", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS"
  std::vector<std::string> nics;                // "NIC0" or "mlx5_0", in order
  std::vector<bool> near;                       // of each adapter: behind one PCIe switch with a device (PIX, PXB)
  std::vector<NvlinkPair> nvlinks;              // first < second
  std::vector<std::vector<int>> roots;          // devices behind one PCIe switch (PIX, PXB), groups of two or more
  std::vector<std::vector<int>> sockets;        // devices that need not cross between sockets (all but SYS), by lowest device
};

// Reads the matrix out of the program's output: text around it, the legend and colours are skipped; columns may be parted
// by tabs or spaces. Two devices joined by NVLink show no PCIe relation: their sockets follow from third devices and from
// the CPU affinity column. Throws InputError with the place of the fault; `name` is how messages call the text.
TopologyMatrix parse_topology_matrix(const std::string& text, const std::string& name);

// Whether the NVLinks can only be a switch's: a device shows more of them than it has.
bool has_nvswitch(const TopologyMatrix& matrix, const DeviceType& type);

// The wiring that the matrix shows, with the device's own link bandwidths (nvlink, copy_bandwidth). What a matrix cannot
// say (latencies, staged copies, the link between sockets) is filled with the values of docs/models/topology.md.
NodeWiring wiring_from_matrix(const TopologyMatrix& matrix, const DeviceType& type);

// One node wired so. Throws InputError.
Cluster read_topology_matrix(const std::string& text, const std::string& name, const DeviceType& type);

}  // namespace panpipe
