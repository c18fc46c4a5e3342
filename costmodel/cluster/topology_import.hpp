// What `nvidia-smi topo -m` shows, as a cluster file in which every number stands, to be read and corrected.
#pragma once

#include <string>

#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/nvidia_smi_topology.hpp"

namespace panpipe {

struct TopologyImport {
  std::string source;     // where the matrix was read
  std::string reference;  // how the file shall name the device
  TopologyMatrix matrix;
  NodeGroup nodes;  // device type, number, network; its wiring is made from the matrix
};

// The text of a cluster file. Read back it is the cluster that `wiring: {topology: FILE}` gives, with the same network. Throws
// InputError.
std::string cluster_file_of(const TopologyImport& import);

// ", 10 network adapters, of which 8 lie beside a device (PIX, PXB) and --nics 8 would count"; nothing without adapters.
std::string adapters_text(const TopologyMatrix& matrix);

}  // namespace panpipe
