// What the arena's table and its page say alike.
#pragma once

#include <string>
#include <vector>

#include "study/arena/arena.hpp"

namespace panpipe::arena {

std::string semantics_letters(const Transfers& transfers);  // "auBg"; '-' where it deadlocks
std::string semantics_text(const Judged& judged);           // early/late
std::string heading_of(const Arena& arena, const Round& round);
// In microbatches that a rank holds: half, three quarters, once and twice what 1F1B's first rank does.
std::vector<double> memory_limits(int ranks);

}  // namespace panpipe::arena
