// Writes the output of `nvidia-smi topo -m` as a cluster file with all numbers spelt out, for the user to read and correct.
#pragma once

#include <string>

#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/nvidia_smi_topology.hpp"

namespace panpipe {

struct TopologyImport {
  std::string source;     // the file with the matrix
  std::string reference;  // the device's name in the written file
  TopologyMatrix matrix;
  NodeGroup nodes;  // device type, number, network; the wiring comes from the matrix
};

// The text of a cluster file. It reads back as the cluster that `wiring: {topology: FILE}` gives with the same network. Throws
// InputError.
std::string cluster_file_of(const TopologyImport& import);

// ", 10 network adapters, of which 8 lie next to a device (PIX, PXB) and --nics 8 would count"; empty without adapters.
std::string adapters_text(const TopologyMatrix& matrix);

}  // namespace panpipe
