#include "costmodel/workload/assign_contexts.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/index.hpp"

namespace panpipe {
namespace {

struct Group {
  SequenceShape shape;
  int degree = 1;
  double work = 0;  // of each of its ranks
};
using Slots = std::vector<std::vector<Group>>;

int rounded_up(int tokens, int multiple) { return (tokens + multiple - 1) / multiple * multiple; }

// Each into the first slot with room; empty: not so many slots.
Slots filled(const std::vector<Group>& groups, int ranks, int most) {
  Slots slots;
  std::vector<int> free;
  for (const Group& group : groups) {
    std::size_t k = 0;
    while (k < slots.size() && free[k] < group.degree) ++k;
    if (k == slots.size()) {
      if (std::ssize(slots) == most) return {};
      slots.emplace_back();
      free.push_back(ranks);
    }
    slots[k].push_back(group);
    free[k] -= group.degree;
  }
  return slots;
}

// Groups of like work in one slot. Where that leaves gaps, larger groups first: powers of two then leave none.
Slots shared_out(std::vector<Group> groups, int ranks, int slots) {
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.work > b.work; });
  Slots made = filled(groups, ranks, slots);
  if (!made.empty()) return made;
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.degree > b.degree; });
  return filled(groups, ranks, slots);
}

}  // namespace

int context_degree(int tokens, int longest, int most) {
  const double ranks = static_cast<double>(tokens) / longest * most;
  int degree = 1;
  while (degree < most && degree < ranks) degree *= 2;
  return degree;
}

ContextSlots assign_contexts(std::vector<int> lengths, int most, int ranks, int slots, const SequenceWork& work) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  const int longest = rounded_up(lengths.front(), 2 * most), room = longest / most;
  std::vector<Group> groups;
  std::vector<int> short_ones;
  int shared = 0;  // ranks of groups of several
  for (const int length : lengths) {
    const int degree = context_degree(length, longest, most);
    if (degree == 1) {
      short_ones.push_back(length);
      continue;
    }
    Group& group = groups.emplace_back();
    group.shape.samples.push_back(rounded_up(length, 2 * degree));
    group.degree = degree;
    group.work = work.of(group.shape) / degree;
    shared += degree;
  }
  std::vector<SequenceShape> packed;
  if (!short_ones.empty()) packed = pack_samples(short_ones, room, Packing::Balanced, work, 0, 1);
  const int least = (shared + static_cast<int>(packed.size()) + ranks - 1) / ranks, given = slots > 0 ? slots : least;
  if (given < least) return {};
  // As many sequences as there are ranks for them, and no more than samples.
  const int places = std::min(given * ranks - shared, static_cast<int>(short_ones.size()));
  if (places > std::ssize(packed))
    if (auto wider = pack_samples(short_ones, room, Packing::Balanced, work, places, 1); !wider.empty())
      packed = std::move(wider);
  for (SequenceShape& shape : packed) groups.push_back({shape, 1, work.of(shape)});
  Slots made = shared_out(std::move(groups), ranks, given);
  if (made.empty()) return {};
  made.resize(at(given));
  ContextSlots result{given, std::vector<SequenceShape>(at(given) * at(ranks))};
  for (std::size_t slot = 0; slot < made.size(); ++slot) {
    std::stable_sort(made[slot].begin(), made[slot].end(), [](const Group& a, const Group& b) { return a.degree > b.degree; });
    std::size_t rank = 0;
    for (const Group& group : made[slot])
      for (int member = 0; member < group.degree; ++member) result.of[rank++ * made.size() + slot] = group.shape;
  }
  return result;
}

}  // namespace panpipe
