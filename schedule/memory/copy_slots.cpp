#include "schedule/memory/copy_slots.hpp"

#include <algorithm>

namespace panpipe {

std::optional<double> CopySlots::first(double length, double from, double until) const {
  double start = from;
  auto next = taken_.upper_bound(from);
  if (next != taken_.begin()) start = std::max(start, std::prev(next)->second);
  for (; start + length <= until; ++next) {
    if (next == taken_.end() || start + length <= next->first) return start;
    start = std::max(start, next->second);
  }
  return std::nullopt;
}

std::optional<double> CopySlots::last(double length, double from, double until) const {
  double end = until;
  auto after = taken_.lower_bound(until);  // entries before it start before `until`
  while (end - length >= from) {
    if (after == taken_.begin()) return end - length;
    const auto before = std::prev(after);
    if (before->second <= end - length) return end - length;
    end = std::min(end, before->first);
    after = before;
  }
  return std::nullopt;
}

void CopySlots::take(double start, double length) {
  if (length > 0) taken_[start] = start + length;
}

}  // namespace panpipe
