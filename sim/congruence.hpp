// Which pipeline groups of a plan behave alike, so that one may stand for all of them, and where a pass may be one timer.
//
// Pipeline groups (platform.hpp) and resources are coloured until the colouring is stable: resources of one colour have
// the same capacity and the same numbers of users of every colour, groups of one colour cross resources of the same colours
// and belong to groups of the same colours. Then equal colours see equal rates at all times, because the max-min fair
// allocation is unique, and simulating one of each colour is exact. Whatever differs, a degraded link or a group that
// straddles two nodes, gets a colour of its own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/flow_backend.hpp"
#include "sim/platform.hpp"

namespace panpipe::sim {

struct Folding {
  int classes = 1;                                      // simulated pipeline groups
  std::vector<std::int32_t> class_of;                   // per pipeline group
  std::vector<std::int32_t> group_of;                   // per class: its first pipeline group
  std::vector<std::int32_t> size;                       // per class: its pipeline groups
  std::array<std::vector<std::int32_t>, kAmong> group;  // per class: number of its group of a kind
  std::array<int, kAmong> groups{};
  std::vector<std::int32_t> pass_group;  // the same of those that passes of any kind of collectives bring together
  int pass_groups = 1;
  Network network;                  // of the simulated pipeline groups
  std::vector<std::int32_t> route;  // [path * classes + class] into network.routes, -1 where nothing is shared

  std::int32_t route_of(int path, int cls) const { return route[static_cast<std::size_t>(path * classes + cls)]; }
};

// Without `fold` every pipeline group is a class of its own.
Folding fold_groups(const Platform& platform, bool fold);

// Per rank: may its passes be one timer each? They may when no other flow than those of a group's own passes uses a resource that
// their collectives use, and a collective's members together stay below every resource's capacity at their own full rate
// (`rate` per path, of one member in bytes per second).
std::vector<bool> mergeable_ranks(const Platform& platform, int ranks, const std::vector<double>& rate);

}  // namespace panpipe::sim
