// Finds pipeline groups of a plan that behave alike, so that one can represent all of them, and passes that can be one timer.
//
// Pipeline groups (platform.hpp) and resources are coloured until the colouring is stable: resources of one colour have the same
// capacity and the same numbers of users of every colour, groups of one colour cross resources of the same colours and belong to
// groups of the same colours. Equal colours then see equal rates at all times, because the max-min fair allocation is unique, so
// simulating one of each colour is exact. Anything different, such as a degraded link or a group that spans two nodes, gets its
// own colour.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/flow_backend.hpp"
#include "sim/platform.hpp"

namespace panpipe::sim {

// The groups of one kind among the classes.
struct ClassGroups {
  std::vector<std::int32_t> of;                    // per class: number of its group
  std::vector<std::vector<std::int32_t>> members;  // per group: its classes
};

struct Folding {
  int classes = 1;                         // simulated pipeline groups
  std::vector<std::int32_t> class_of;      // per pipeline group
  std::vector<std::int32_t> group_of;      // per class: its first pipeline group
  std::vector<std::int32_t> size;          // per class: number of its pipeline groups
  std::array<ClassGroups, kAmong> groups;  // by kind
  ClassGroups pass_groups;                 // those that passes with any kind of collectives synchronise
  Network network;                         // of the simulated pipeline groups
  std::vector<std::int32_t> route;         // [path * classes + class] into network.routes, -1 if nothing is shared

  std::int32_t route_of(int path, int cls) const { return route[path * classes + cls]; }
};

// Without `fold` every pipeline group is its own class.
Folding fold_groups(const Platform& platform, bool fold);

// Per rank: true if each of its passes may be one timer. Then no other flow uses a resource of the group's collectives, and the
// members of a collective together stay below every resource's capacity at their full rate (`rate` per path, of one member in
// bytes per second).
std::vector<bool> mergeable_ranks(const Platform& platform, int ranks, const std::vector<double>& rate);

}  // namespace panpipe::sim
