#include "costmodel/plan/slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "costmodel/plan/plan.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

// First units of what may be separated, and the end.
std::vector<int> separable(const std::vector<SlotUnit>& units, std::size_t wanted) {
  std::vector<int> whole, each;
  for (std::size_t u = 0; u < units.size(); ++u) {
    each.push_back(static_cast<int>(u));
    if (u == 0 || units[u].block.empty() || units[u].block != units[u - 1].block) whole.push_back(static_cast<int>(u));
  }
  std::vector<int>& chosen = whole.size() > wanted ? whole : each;
  chosen.push_back(static_cast<int>(units.size()));
  return chosen;
}

// Ends of the parts of times[0, count), and the longest part.
std::pair<std::vector<int>, Duration> divided(const std::vector<Duration>& times, std::size_t count, int parts) {
  const std::vector<Duration> part(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<int> ends = balanced_partition(part, parts);
  ends.push_back(static_cast<int>(count));
  Duration longest(0);
  for (std::size_t k = 0, at = 0; k < ends.size(); ++k) {
    Duration sum(0);
    for (; at < static_cast<std::size_t>(ends[k]); ++at) sum += part[at];
    longest = std::max(longest, sum);
  }
  return {ends, longest};
}

}  // namespace

std::vector<UnitRange> slot_ranges(const std::vector<SlotUnit>& units, int forward, int backward) {
  const int back = backward - 1;
  const auto least = static_cast<std::size_t>(std::max(forward, back));
  const std::vector<int> firsts = separable(units, least);
  const std::size_t groups = firsts.size() - 1;
  if (groups <= least)
    throw InputError(fmt::format("{} units cannot be cut into {} slots and one that turns round", units.size(), least),
                     "use fewer slots: schedule.forward_slots, schedule.backward_slots");
  std::vector<Duration> forth(groups, Duration(0)), both(groups, Duration(0));
  for (std::size_t g = 0; g < groups; ++g)
    for (int u = firsts[g]; u < firsts[g + 1]; ++u) {
      forth[g] += units[u].forward;
      both[g] += units[u].backward;
    }
  std::optional<Duration> best;
  std::vector<int> forth_ends, back_ends;
  Duration turn(0);
  for (std::size_t at = groups - 1; at >= least; --at) {
    turn += both[at];
    if (best && turn >= *best) break;  // it only grows
    auto [ends_forth, longest_forth] = divided(forth, at, forward);
    auto [ends_back, longest_back] = divided(both, at, back);
    const Duration longest = std::max({turn, longest_forth, longest_back});
    if (best && longest >= *best) continue;
    best = longest;
    forth_ends = std::move(ends_forth);
    back_ends = std::move(ends_back);
  }
  std::vector<UnitRange> ranges;
  for (std::size_t k = 0; k < forth_ends.size(); ++k)
    ranges.push_back({firsts[k == 0 ? 0 : forth_ends[k - 1]], firsts[forth_ends[k]]});
  ranges.push_back({firsts[forth_ends.back()], firsts.back()});
  for (std::size_t k = back_ends.size(); k-- > 0;)
    ranges.push_back({firsts[k == 0 ? 0 : back_ends[k - 1]], firsts[back_ends[k]]});
  return ranges;
}

SlotCounts slot_counts(const Schedule& schedule) {
  SlotCounts counts;
  const std::vector<Way> ways = ways_of_stages(schedule);
  if (ways.empty()) return counts;
  for (const int stage : schedule.chains.front()) ++(ways[stage] == Way::Forth ? counts.forward : counts.backward);
  return counts;
}

}  // namespace panpipe
