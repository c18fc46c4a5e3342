// Plans next to those that the closed forms know: other cuts, recompute of some blocks, groups of ZeRO, families without closed
// forms, orders of the microbatches. Each joins the plans found where it fits. Internal to this folder.
#pragma once

#include "planner/auto/plans_found.hpp"

namespace panpipe::planner {

constexpr std::size_t kImproved = 3;  // the best plans, and the best of so many degrees

class Neighbours {
 public:
  explicit Neighbours(PlansFound& plans) : common_(plans.common()), scenario_(common_.experiment.scenario), plans_(plans) {}

  // Configurations that would be faster, but do not fit or hardly fit: with recompute of as few blocks as make room. `wanted`: by
  // what they are expected to take then.
  void cram(std::vector<Priced> wanted);
  // Those that do not fit with the cuts that balance their times: with cuts that fit.
  void fit_cuts(std::vector<Priced> tight);
  // Moves blocks over the cuts of the best plans.
  void move_cuts();
  // The best plans with ZeRO in smaller groups.
  void divide();
  // Where the schedule is open: families without closed forms, on the best plans of several splits.
  void try_last();
  // Microbatches of unequal length in the order that a search finds, if the scenario asks for it: of the best plans.
  void order_microbatches();
  // The cuts of the fastest simulated plans are moved as those of the best estimates were.
  void polish();

 private:
  const Common& common_;
  const Scenario& scenario_;
  PlansFound& plans_;
};

}  // namespace panpipe::planner
