// The stages of a configuration with recompute of all their blocks, next to those without any: what a part of it would do.
// Internal to this folder.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "planner/auto/enumerate.hpp"
#include "planner/auto/stage_recompute.hpp"

namespace panpipe::planner {

class Crammed {
 public:
  explicit Crammed(const Common& common) : common_(common) {}

  // Other stages come.
  void clear() {
    for (std::optional<PlacedStages>& with : with_) with.reset();
    new_counts();
  }
  // Other counts come.
  void new_counts() {
    for (Peaks& peaks : peaks_) peaks = {};
  }

  // Whether recompute of all blocks fits under one of these ZeRO stages.
  bool makes_room(Pricer& pricer, const PlacedStages& placed, const OrderCounts& counts, const std::vector<int>& zeros, int data,
                  int microbatches) {
    if (!common_.by_stage) return false;
    return std::any_of(common_.space.recompute.begin(), common_.space.recompute.end(), [&](Recompute mode) {
      return mode != Recompute::None && std::any_of(zeros.begin(), zeros.end(), [&](int zero) {
               const PerParameter& per = pricer.per_parameter(zero, data);
               return memory(pricer, mode, placed, counts, per, microbatches) <= static_cast<double>(common_.facts.limit);
             });
    });
  }

  // For each mode that recomputes, what the configuration is expected to take with as much of it as makes room, where that is
  // less than `incumbent`. `without`: its memory and its step without recompute. `busy`: the work of the busiest of placed stages
  // for one microbatch.
  template <class Busy>
  void add(Pricer& pricer, const PlacedStages& placed, const OrderCounts& counts, const PerParameter& per, const Priced& without,
           double incumbent, Busy busy, std::vector<Priced>& found) {
    if (!common_.by_stage || without.configuration.recompute != Recompute::None || without.bound >= incumbent) return;
    Configuration c = without.configuration;
    const double passes = c.microbatches * common_.facts.jitter(placed.ranks, c.device_count());
    for (const Recompute mode : common_.space.recompute) {
      if (mode == Recompute::None) continue;
      const double with = memory(pricer, mode, placed, counts, per, c.microbatches);
      const double longer = passes * (busy(with_recompute(pricer, mode, placed)) - busy(placed));
      const RecomputeShare share = {without.memory, with, without.bound, without.bound + longer};
      const double step = share.step_within(common_.limit_with_room);
      c.recompute = mode;
      if (step < incumbent) found.push_back({step, without.memory, c, false});
    }
  }

 private:
  const PlacedStages& with_recompute(Pricer& pricer, Recompute mode, const PlacedStages& placed) {
    std::optional<PlacedStages>& with = with_[at(mode)];
    if (!with) with.emplace(pricer.place_stages(mode, placed.ranks, placed.chunks, placed.placement));
    return *with;
  }

  double memory(Pricer& pricer, Recompute mode, const PlacedStages& placed, const OrderCounts& counts, const PerParameter& per,
                int microbatches) {
    const PlacedStages& with = with_recompute(pricer, mode, placed);
    Peaks& peaks = peaks_[at(mode)];
    if (peaks.of_ranks.empty()) activation_peaks(with, counts, peaks.of_ranks);
    if (peaks.per != &per) peaks.memory = memory_peaks(with, common_.facts, per, peaks.of_ranks, microbatches).largest;
    peaks.per = &per;
    return peaks.memory;
  }

  // Under the last counts, and of the last ZeRO stage and data degree.
  struct Peaks {
    std::vector<double> of_ranks;
    const PerParameter* per = nullptr;
    double memory = 0;
  };

  const Common& common_;
  std::array<std::optional<PlacedStages>, kModes> with_;  // by recompute
  std::array<Peaks, kModes> peaks_;
};

}  // namespace panpipe::planner
