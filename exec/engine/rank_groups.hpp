// Making groups of ranks: every rank makes every group, in the same order, as transports want it.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "exec/engine/mesh.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

using RankGroups = std::map<std::vector<int>, Group>;  // by ranks

inline void add_groups(const Plan& plan, Among among, std::set<std::vector<int>>& wanted) {
  for (int rank = 0; rank < plan.device_count(); ++rank) wanted.insert(group_of(plan, among, rank));
}

// Those with more than one rank.
inline RankGroups make_groups(Transport& transport, const std::set<std::vector<int>>& wanted) {
  RankGroups made;
  for (const std::vector<int>& ranks : wanted)
    if (ranks.size() > 1) made[ranks] = transport.make_group(ranks);
  return made;
}

// This rank's of a kind that has more than one member.
inline Group make_own_group(Transport& transport, const Plan& plan, Among among) {
  std::set<std::vector<int>> wanted;
  add_groups(plan, among, wanted);
  return make_groups(transport, wanted).at(group_of(plan, among, transport.rank()));
}

}  // namespace panpipe::exec
