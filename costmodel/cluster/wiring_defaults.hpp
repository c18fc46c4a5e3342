// Defaults for keys that a cluster file omits. Each value names its origin; docs/models/topology.md repeats them.
#pragma once

#include "base/quantity.hpp"

namespace panpipe::wiring_defaults {

// NVIDIA/cuda-samples issue 230: p2pBandwidthLatencyTest, four GPUs, peer access on: 1.8 to 2.3 us over NVLink.
inline constexpr Duration kNvlinkLatency = micros(2);
// The same test's order of magnitude over PCIe (1 to 2.5 us); no A100-PCIe listing was available.
inline constexpr Duration kPeerLatency = micros(2.5);
// club-3090, docs/PCIE_P2P.md: 15.23 us and 11.28 GB/s through the host, RTX 3090 with the stock driver.
inline constexpr Duration kHostLatency = micros(15.2);
inline constexpr Bandwidth kHostCopy = gb_per_s(11.2);
// NCCL through the host on processors with PCIe 4.0 and 5.0 (validation/published/pcie_collectives.csv): both directions of a
// port together reach this share of one direction, which is counted as 25 GB/s.
inline constexpr double kHostBothWays = 1.4;
// The same table: 14 GB/s through a socket of EPYC 7002 and 39.5 of Xeon (third generation); their geometric mean.
inline constexpr Bandwidth kHostRelay = gb_per_s(23.5);
// NCCL, src/graph/topo.h: the value that its path search assumes for the link between AMD sockets.
inline constexpr Bandwidth kSocketLink = gb_per_s(16);
// NVIDIA/nccl issue 1127, 8x RTX 3090 on two sockets: latencies through the host are 11.6 to 20.7 us whether or not the copy
// crosses sockets, so crossing adds no visible latency.
inline constexpr Duration kSocketLatency = micros(0);
// NCCL, src/graph/tuning.cc: a tree's hop over the network by the LL protocol.
inline constexpr Duration kNetworkLatency = micros(5);
// The same file: a message costs 1 us of host time, on AMD processors 2 us.
inline constexpr Duration kNetworkPost = micros(1);

}  // namespace panpipe::wiring_defaults
