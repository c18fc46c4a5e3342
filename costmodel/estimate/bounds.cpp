#include "costmodel/estimate/bounds.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "costmodel/base/error.hpp"

namespace panpipe {
namespace {

// Several sums side by side: the compiler may not reorder one. Terms are whole numbers, so the order does not change the result.
double dot(const double* a, const double* b, std::size_t n) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  }
  double sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

CriticalPath critical_path(const Structure& structure, const double* delays, const double* ends) {
  CriticalPath path;
  path.counts.assign(structure.cost_entries + structure.delay_entries, 0);
  std::uint32_t t = 0;
  for (const std::uint32_t last : structure.lane_last) {
    if (ends[last] > ends[t]) t = last;
  }
  while (t != 0) {
    path.counts[structure.cost[t]] += 1;
    const double arrival = ends[structure.src[t]] + delays[structure.delay[t]];
    if (ends[structure.lane_pred[t]] >= arrival) {
      t = structure.lane_pred[t];
    } else {
      path.counts[structure.cost_entries + structure.delay[t]] += 1;
      t = structure.src[t];
    }
  }
  return path;
}

double path_time(const Structure& structure, const CriticalPath& path, const double* costs, const double* delays) {
  return dot(path.counts.data(), costs, structure.cost_entries) +
         dot(path.counts.data() + structure.cost_entries, delays, structure.delay_entries);
}

PathPool::PathPool(const Structure& structure)
    : cost_entries_(structure.cost_entries), row_length_(std::size_t{structure.cost_entries} + structure.delay_entries) {}

bool PathPool::insert(const CriticalPath& path) {
  for (std::size_t row = 0; row < counts_.size(); row += row_length_) {
    if (std::equal(path.counts.begin(), path.counts.end(), counts_.begin() + static_cast<std::ptrdiff_t>(row))) return false;
  }
  counts_.insert(counts_.end(), path.counts.begin(), path.counts.end());
  return true;
}

double PathPool::bound(const double* costs, const double* delays) const {
  double best = 0;
  for (std::size_t row = 0; row < counts_.size(); row += row_length_) {
    const double* const counts = counts_.data() + row;
    best = std::max(best, dot(counts, costs, cost_entries_) + dot(counts + cost_entries_, delays, row_length_ - cost_entries_));
  }
  return best;
}

ClosedFormBound::ClosedFormBound(const PipelineOrder& order) {
  PANPIPE_CHECK(!order.has_cells(), "the closed form is for orders of lone passes without sequence splits");
  const auto stages = static_cast<std::size_t>(order.stages);
  std::vector<bool> uses_i(stages), uses_b(stages);
  for (const PackedAction action : order.actions) {
    const auto stage = static_cast<std::size_t>(stage_of(action));
    if (pass_of(action) == Pass::I) uses_i[stage] = true;
    if (pass_of(action) == Pass::B) uses_b[stage] = true;
  }
  for (std::size_t first = 0; first < stages; ++first) {
    if (order.stage_before[first] >= 0) continue;
    for (int s = static_cast<int>(first); s >= 0; s = order.stage_after[static_cast<std::size_t>(s)]) {
      const auto at = static_cast<std::size_t>(s);
      Stage stage;
      stage.index = s;
      stage.before = order.stage_before[at];
      stage.gradient = cost_entry(uses_b[at] ? Pass::B : Pass::I, s);
      stage.other_gradient = cost_entry(uses_i[at] ? Pass::I : Pass::B, s);
      if (stage.before >= 0 && order.stage_to_rank[at] != order.stage_to_rank[static_cast<std::size_t>(stage.before)]) {
        stage.forward_delay = forward_delay_entry(stage.before);
        stage.backward_delay = backward_delay_entry(s);
      }
      stages_.push_back(stage);
    }
  }
  for (std::size_t r = 0; r + 1 < order.rank_begin.size(); ++r) {
    const auto begin = order.actions.begin() + order.rank_begin[r], end = order.actions.begin() + order.rank_begin[r + 1];
    if (begin == end) continue;
    Rank rank;
    rank.first_stage = stage_of(*begin);
    rank.first_work = static_cast<std::uint32_t>(work_.size());
    std::map<std::uint32_t, Work> work;
    for (auto action = begin; action != end; ++action) {
      Work& entry = work[cost_entry(pass_of(*action), stage_of(*action))];
      entry.count += 1;
      entry.count_after += 1;
      if (pass_of(*action) == Pass::I || pass_of(*action) == Pass::B) {
        rank.last_stage = stage_of(*action);
        for (auto& [key, value] : work) value.count_after = 0;
      }
    }
    for (auto& [key, value] : work) {
      value.entry = key;
      work_.push_back(value);
    }
    rank.works = static_cast<std::uint32_t>(work.size());
    ranks_.push_back(rank);
  }
}

double ClosedFormBound::operator()(const double* costs, const double* delays, double* scratch) const {
  double* const arrives = scratch;                   // earliest start of a stage's first forward
  double* const remains = scratch + stages_.size();  // from a gradient of a stage to the end of that microbatch
  for (const Stage& stage : stages_) {
    if (stage.before < 0) {
      arrives[stage.index] = remains[stage.index] = 0;
      continue;
    }
    const auto before = static_cast<std::size_t>(stage.before);
    arrives[stage.index] = arrives[before] + costs[cost_entry(Pass::F, stage.before)] + delays[stage.forward_delay];
    const Stage& previous = *(&stage - 1);  // stages_ follows each chain
    remains[stage.index] =
        remains[before] + delays[stage.backward_delay] + std::min(costs[previous.gradient], costs[previous.other_gradient]);
  }
  double best = 0;
  for (const Rank& rank : ranks_) {
    double busy = 0, after = 0;
    for (std::uint32_t w = rank.first_work; w < rank.first_work + rank.works; ++w) {
      busy += work_[w].count * costs[work_[w].entry];
      after += work_[w].count_after * costs[work_[w].entry];
    }
    const double tail = rank.last_stage < 0 ? 0 : remains[rank.last_stage];
    best = std::max(best, arrives[rank.first_stage] + busy + std::max(0.0, tail - after));
  }
  return best;
}

}  // namespace panpipe
