// Measures a machine apart from operators: messages between ranks, sums over ranks, copies, launches.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "costmodel/profile/profile.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Limit of the wait for other ranks between measurements.
constexpr Clock::duration kTimeout = std::chrono::seconds(60);

struct MeasuredMessages {
  std::vector<ProfiledTransfers> transfers;
  std::optional<ProfiledCollective> work;  // compute of each end for a message: kind "message"; on CPUs, from the first pair
};

// All ranks together: each pair in turn exchanges messages (ping-pong) while the others are idle. Rank 0 gets the tables (half a
// round trip, the same in both directions), the others nothing. Beyond eight ranks only neighbours are measured. Tensors are on
// the rank's device.
MeasuredMessages measure_transfers(Transport& transport, int repetitions, at::Device device = at::kCPU);

// All ranks together: an all-reduce over groups of `members` neighbouring ranks, all groups at once. Empty for one member, and on
// all ranks except 0.
std::vector<ProfiledCollective> measure_collectives(Transport& transport, int repetitions, int members,
                                                    at::Device device = at::kCPU);

// This rank's memory bandwidth: bytes read and written per second by a copy that fits no cache.
double measure_memory_bandwidth(at::Device device = at::kCPU);

// This rank's host seconds per operator, from a program of tiny operators with autograd.
double measure_launch(at::Device device = at::kCPU);

}  // namespace panpipe::exec
