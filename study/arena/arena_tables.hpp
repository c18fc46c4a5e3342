// Shared by the arena's table and its page.
#pragma once

#include <string>
#include <vector>

#include "study/arena/arena.hpp"

namespace panpipe::study {

std::string semantics_letters(const Transfers& transfers);  // "auBg"; '-' where it deadlocks
std::string semantics_text(const Judged& judged);           // early/late
std::string time_text(const ClusterTime& time);             // "24.24 ms"; "-" where there is none
std::string heading_of(const Arena& arena, const Round& round);
// What is unusual about the entrant's weights and steps: "weights twice", "stale by 1 update"; "" = nothing.
std::string remark_on(const Judged& judged);
// "F:I:W = 1:1.2:0.867, head 0.26, ..."
std::string costs_text(const CostRatio& ratio);
// Microbatches that a rank holds: half, three quarters, once and twice as many as 1F1B's first rank.
std::vector<double> memory_limits(int ranks);

}  // namespace panpipe::study
