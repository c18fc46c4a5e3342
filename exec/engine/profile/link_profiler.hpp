// What a machine does besides operators: messages between ranks, sums over them, copying, launching.
#pragma once

#include <utility>
#include <vector>

#include "costmodel/profile/profile.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// All ranks together; each pair in turn, ping-pong, while the others are idle. Rank 0 gets the tables (half a round trip; the
// same both ways), the others nothing. Above eight ranks only neighbours are measured.
std::vector<ProfiledTransfers> measure_transfers(Transport& transport, int repetitions);

// All ranks together: an all-reduce over all of them. Empty for one rank, and on every rank but 0.
std::vector<ProfiledCollective> measure_collectives(Transport& transport, int repetitions);

// This rank's: bytes read and written per second by a copy that no cache holds.
double measure_memory_bandwidth();

// This rank's: host seconds per operator of a program of tiny ones, autograd on.
double measure_launch();

}  // namespace panpipe::exec
