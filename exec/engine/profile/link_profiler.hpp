// What a machine does besides operators: messages between ranks, sums over them, copying, launching.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "costmodel/profile/profile.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// How long ranks wait for one another between measurements.
constexpr Clock::duration kPatience = std::chrono::seconds(60);

struct MeasuredMessages {
  std::vector<ProfiledTransfers> transfers;
  std::optional<ProfiledCollective> work;  // what each end computes for a message: kind "message". On CPUs, of the first pair
};

// All ranks together; each pair in turn, ping-pong, while the others are idle. Rank 0 gets the tables (half a round trip; the
// same both ways), the others nothing. Above eight ranks only neighbours are measured. Tensors lie on the rank's device.
MeasuredMessages measure_transfers(Transport& transport, int repetitions, at::Device device = at::kCPU);

// All ranks together: an all-reduce over groups of `members` neighbouring ranks, side by side. Empty for one member, and on every
// rank but 0.
std::vector<ProfiledCollective> measure_collectives(Transport& transport, int repetitions, int members,
                                                    at::Device device = at::kCPU);

// This rank's: bytes read and written per second by a copy that no cache holds.
double measure_memory_bandwidth(at::Device device = at::kCPU);

// This rank's: host seconds per operator of a program of tiny ones, autograd on.
double measure_launch(at::Device device = at::kCPU);

}  // namespace panpipe::exec
