// Predicts the algorithm and protocol that NCCL chooses for a collective, and its time. Follows NCCL's public tuning model; terms
// and origins: docs/models/collectives.md. Internal to this folder.
#pragma once

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// A group as NCCL sees it. Rates are in bytes per second as software reaches them; times in seconds.
struct NcclGroup {
  int members = 1;
  int nodes = 1;
  int in_node = 1;         // members in the fullest node
  bool nvlink = true;      // every hop inside a node goes over NVLink
  bool multicast = false;  // every member's switch can reduce (NVLS)
  double fabric = 0;       // of a ring's hop inside a node
  double reduced = 0;      // between a member and a switch that reduces
  double network = 0;      // of the group out of a node; unused within one node
  double member = 0;       // the same for one member alone
  double peers = 0;        // the same in an all-to-all, if it is not `network`
  bool sharp = false;      // the network's switches sum
  double crossing = 1;     // of an all-to-all's bytes for other nodes, the share that crosses the network
  bool copies = false;     // the nodes make the copies of it
  bool at_once = false;    // no rounds of peers
  double hop = 0;          // latency between nodes, device to device
  double post = 0;         // host time per message
};

struct NcclCollective {
  Algorithm algorithm{};
  Protocol protocol{};
  double latency = 0;  // of the algorithm's steps, without the launch
  double wire = 0;     // bytes that a member sends
  double time = 0;     // latency + bytes at the algorithm's rate
};

// The fastest algorithm and protocol. `bytes` is the size of the full tensor.
NcclCollective nccl_collective(CollectiveKind kind, double bytes, const NcclGroup& group);

// Total bytes that each member sends, over a ring or to its peers.
double ring_bytes(CollectiveKind kind, int members, double bytes);

}  // namespace panpipe
