#include "planner/piper/suffixes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/error.hpp"

namespace panpipe::planner::piper {
namespace {

// The layers whose successors are all in the set, and which are not in it; the last one, where stages are contiguous.
class Ready {
 public:
  explicit Ready(const PlanningProblem& problem) : incidence_(problem), problem_(problem) {}

  std::vector<int> layers(const std::uint64_t* set) const {
    const auto has = [&](int layer) { return (set[layer / 64] >> (layer % 64)) & 1; };
    std::vector<int> ready;
    for (int layer = static_cast<int>(problem_.layers.size()) - 1; layer >= 0; --layer) {
      if (has(layer)) continue;
      const auto& out = incidence_.out_of[layer];
      if (std::all_of(out.begin(), out.end(), [&](int e) { return has(problem_.edges[e].to); })) ready.push_back(layer);
      if (problem_.contiguous) break;
    }
    return {ready.rbegin(), ready.rend()};
  }

 private:
  Incidence incidence_;
  const PlanningProblem& problem_;
};

[[noreturn]] void too_many(const PlanningProblem& problem, std::size_t limit) {
  throw NoAnswer(
      fmt::format("the {} layers can be split in two in more than {} ways, too many for an exact search: parallel branches "
                  "multiply; join the layers of a branch into one",
                  problem.layers.size(), limit));
}

}  // namespace

Suffixes::Suffixes(const PlanningProblem& problem, std::size_t limit)
    : words_((problem.layers.size() + 63) / 64), bits_(words_, 0), sizes_{0}, parent_{0}, added_{-1} {
  const Ready ready(problem);
  std::vector<std::uint64_t> set(words_);
  std::size_t level = 0;
  // Sets of one size after another, so that they come sorted; within a level a set is found once by its bits.
  while (level < size()) {
    const std::size_t end = size();
    std::unordered_set<std::string> seen;
    for (; level < end; ++level) {
      for (const int layer : ready.layers(bits(level))) {
        std::copy_n(bits(level), words_, set.begin());
        set[static_cast<std::size_t>(layer) / 64] |= std::uint64_t{1} << (layer % 64);
        if (!seen.emplace(reinterpret_cast<const char*>(set.data()), words_ * sizeof(std::uint64_t)).second) continue;
        if (size() >= limit) too_many(problem, limit);
        bits_.insert(bits_.end(), set.begin(), set.end());
        sizes_.push_back(sizes_[level] + 1);
        parent_.push_back(static_cast<std::uint32_t>(level));
        added_.push_back(layer);
      }
    }
  }
}

std::vector<int> Suffixes::difference(std::size_t outer, std::size_t inner) const {
  std::vector<int> layers;
  for (std::size_t w = 0; w < words_; ++w)
    for (std::uint64_t rest = bits(outer)[w] & ~bits(inner)[w]; rest != 0; rest &= rest - 1)
      layers.push_back(static_cast<int>(w * 64) + __builtin_ctzll(rest));
  return layers;
}

}  // namespace panpipe::planner::piper
