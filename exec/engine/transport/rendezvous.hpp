// How the processes of a run meet: over a store at MASTER_ADDR:MASTER_PORT, held by rank 0 (or by torchrun's agent).
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "exec/engine/transport/deadline_watch.hpp"
#include "exec/engine/transport/transport.hpp"

namespace c10d {
class Store;
}

namespace panpipe::exec {

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  std::unique_ptr<Watch> watch;
  std::string address;                 // of this host, as the others reach it
  int local_rank = 0, local_size = 1;  // among the ranks of this host, in rank order
};

std::string host_name();
// Identifies a host, as in NCCL: hosts of a cluster may share one name, and containers of one host share a boot but have
// different names.
std::string host_identity();

// Returns when all ranks are present and match: same world size, same version, each rank once. Throws MachineError if the master
// is unreachable or ranks are missing, and InputError if a rank was started for another world, with another version, or twice.
// `lost` is passed to the watch.
Rendezvous hold_rendezvous(const ProcessOptions& options, std::function<void(const std::string&, bool)> lost);

}  // namespace panpipe::exec
