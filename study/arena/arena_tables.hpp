// What the arena's table and its page say alike.
#pragma once

#include <string>
#include <vector>

#include "study/arena/arena.hpp"

namespace panpipe::arena {

std::string semantics_letters(const Transfers& transfers);  // "auBg"; '-' where it deadlocks
std::string semantics_text(const Judged& judged);           // early/late
std::string time_text(const ClusterTime& time);             // "24.24 ms"; "-" where there is none
std::string heading_of(const Arena& arena, const Round& round);
// What passes of the order take under the ratio, with free links.
PassCosts plain_costs(const Schedule& schedule, const CostRatio& ratio);
// In microbatches that a rank holds: half, three quarters, once and twice what 1F1B's first rank does.
std::vector<double> memory_limits(int ranks);

}  // namespace panpipe::arena
