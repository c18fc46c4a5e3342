#include "schedule/travelling_weights.hpp"

#include <algorithm>
#include <set>

#include "base/index.hpp"

namespace panpipe {

bool weights_travel(const Schedule& schedule) {
  if (schedule.ranks < 2 || std::ssize(schedule.chains) != schedule.ranks) return false;
  std::set<int> with_chain;
  for (const std::vector<int>& chain : schedule.chains) {
    if (std::ssize(chain) != schedule.ranks) return false;
    const int rank = schedule.stage_to_rank[at(chain.front())];
    if (!with_chain.insert(rank).second) return false;
    if (std::any_of(chain.begin(), chain.end(), [&](int stage) { return schedule.stage_to_rank[at(stage)] != rank; }))
      return false;
  }
  return true;
}

}  // namespace panpipe
