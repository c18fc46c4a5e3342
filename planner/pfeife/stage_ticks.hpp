// The stage table in ticks, rounded as in the lowering, and lower bounds for all cuts.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "costmodel/lowering/stage_table.hpp"

namespace panpipe::planner {

// The passes with costs.
constexpr std::array<ActionKind, 4> kPasses = {ActionKind::F, ActionKind::I, ActionKind::W, ActionKind::B};

using Sums = std::vector<double>;  // [units + 1]: sums over the units before

class StageTicks {
 public:
  // `pipeline`: number of ranks, for the jitter between them. `sites`: of the ranks (cost_model.hpp).
  StageTicks(const Scenario& scenario, const LoweringCosts& costs, int pipeline, const std::vector<int>& sites);
  StageTicks(const StageTicks&) = delete;  // its parts refer to each other

  int units() const { return any_->units(); }
  // The recompute modes that a stage may use, the fastest first: the scenario's, or, if it leaves that open, those of none,
  // selective and full that hold less memory than the ones before them.
  const std::vector<Recompute>& modes() const { return modes_; }
  // Ticks of a pass (F, I, W, B) of units [first, end). `all_in_weight`: see pass_rules.hpp.
  double ticks(ActionKind kind, int site, int first, int end, bool all_in_weight, Recompute mode) const;
  // The prefix sums, if ticks() is their rounded difference; else nullptr.
  const double* plain_ticks(ActionKind kind, int site, bool all_in_weight, Recompute mode) const;
  // Rounds to the nearest whole number, like std::nearbyint for numbers from 0 to 2^51, without a call.
  static double rounded(double ticks) {
    constexpr double kWhole = 4503599627370496.0;  // 2^52: doubles beyond it are whole
    return (ticks + kWhole) - kWhole;
  }
  // In the fastest mode: ticks >= floor[end] - floor[first], with equality if the host adds nothing.
  const Sums& floor(ActionKind kind, int site) const { return sites_[site].floor[at(kind)]; }
  Sums work(int site) const;  // forward and backward before each unit, likewise
  // For the optimizer step: parameters before each unit, and times given in seconds.
  const std::vector<std::int64_t>& elements() const { return any_->elements(); }
  const std::vector<std::int64_t>& tensors() const { return any_->tensors(); }
  const Sums& given_optimizer() const { return any_->given_optimizer(); }
  HeldParameters held(int first, int end) const { return any_->held(first, end); }
  // True if `ticks` equals the lowering's result apart from rounding. False with tensor-parallel collectives.
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
  const StageTable* any_ = nullptr;  // parameters are the same at every site
  double jitter_ = 1;
  bool host_counts_ = false, synchronous_ = false;
  std::vector<Recompute> modes_;
  std::vector<OfSite> sites_;
};

}  // namespace panpipe::planner
