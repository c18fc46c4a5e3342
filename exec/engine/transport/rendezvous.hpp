// How the processes of a run find each other: over a store at MASTER_ADDR:MASTER_PORT, held by rank 0 (or by torchrun's agent).
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
  int local_rank = 0, local_size = 1;  // among the ranks of this host, in the order of ranks
};

std::string host_name();
// Tells hosts apart, as NCCL does: hosts of a cluster may have one name, containers of one host have one boot but their own
// names.
std::string host_identity();

// Everybody is there and fits: same world size, same version, each rank once. MachineError: the master cannot be reached, ranks
// are missing. InputError: a rank was started for another world, with another version, or twice. `lost`: the watch's.
Rendezvous meet(const ProcessOptions& options, std::function<void(const std::string&, bool)> lost);

}  // namespace panpipe::exec
