// The stage table in ticks, as the lowering rounds them, and what no cut can be below.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "costmodel/lowering/stage_table.hpp"

namespace panpipe::planner {

// The passes whose costs a stage has.
constexpr std::array<ActionKind, 4> kPasses = {ActionKind::F, ActionKind::I, ActionKind::W, ActionKind::B};

using Sums = std::vector<double>;  // [units + 1]: of the units before

class StageTicks {
 public:
  // `pipeline`: ranks, for the jitter between them. `sites`: of the ranks (cost_model.hpp).
  StageTicks(const Scenario& scenario, const LoweringCosts& costs, int pipeline, const std::vector<int>& sites);
  StageTicks(const StageTicks&) = delete;  // its parts refer to each other

  int units() const { return any_->units(); }
  // Ways to recompute that a stage may choose from, the fastest first: what the scenario says, or, where it leaves that open,
  // those of none, selective and full that hold less memory than those before them.
  const std::vector<Recompute>& modes() const { return modes_; }
  // Ticks of a pass (F, I, W, B) of units [first, end). `all_in_weight`: see
  // pass_rules.hpp.
  double ticks(ActionKind kind, int site, int first, int end, bool all_in_weight, Recompute mode) const;
  // Where ticks() is a difference of two sums, rounded: those sums. Else null.
  const double* plain_ticks(ActionKind kind, int site, bool all_in_weight, Recompute mode) const;
  // To the nearest whole number, as std::nearbyint does for what is neither negative nor above 2^51; without its call.
  static double rounded(double ticks) {
    constexpr double kWhole = 4503599627370496.0;  // 2^52: beyond it doubles are whole
    return (ticks + kWhole) - kWhole;
  }
  // In the fastest mode: ticks >= floor[end] - floor[first], with equality where the host does not count.
  const Sums& floor(ActionKind kind, int site) const { return sites_[at(site)].floor[at(kind)]; }
  // Of the optimizer step: parameters before each unit, and what is given in seconds.
  const std::vector<std::int64_t>& elements() const { return any_->elements(); }
  const Sums& given_optimizer() const { return any_->given_optimizer(); }
  // Whether `ticks` is what the lowering comes to, apart from rounding: not beside tensor-parallel collectives.
  bool exact() const { return !any_->has_collectives(); }

 private:
  struct OfSite {
    std::optional<StageTable> table;
    std::array<std::array<Sums, 4>, 3> ticks;  // of device times, by mode and kind
    std::array<Sums, 4> floor;                 // ticks
  };
  void choose_modes(const Scenario& scenario, const WorkloadCost& workload);
  void make_floors(OfSite& of, int site);

  const LoweringCosts& costs_;
  const StageTable* any_ = nullptr;  // parameters are the same everywhere
  double jitter_ = 1;
  bool host_counts_ = false, synchronous_ = false;
  std::vector<Recompute> modes_;
  std::vector<OfSite> sites_;
};

}  // namespace panpipe::planner
