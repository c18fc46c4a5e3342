// Estimates of one configuration with other cuts, or with other recompute of its stages. Internal to this folder.
#pragma once

#include "costmodel/plan/slots.hpp"
#include "planner/auto/exact.hpp"

namespace panpipe::planner {

inline const FamilyForm& form_of(const Configuration& c) { return forms()[c.family]; }
// Whether the schedule is one of ours, or stays as the scenario states it.
inline bool chosen(const Configuration& c) { return !form_of(c).name.empty(); }

// Estimates a configuration with other stages from fewer microbatches: those that fill and drain it, and what each more takes.
class CutTrials {
 public:
  CutTrials(Evaluator& evaluator, const Configuration& configuration);
  bool possible() const { return few_.plan && few_.plan->schedule.chains.size() == 1 && !slot_counts(few_.plan->schedule).any(); }
  const Plan& balanced() const { return *few_.plan; }
  const UnitSums& sums() const { return evaluator_.sums(few_.configuration); }

  Exact operator()(const Plan& stages) const;

 private:
  Exact evaluate(const Exact& with, const Plan& stages) const;

  Evaluator& evaluator_;
  const int count_;
  Exact few_, fewer_;
};

// These stages in the plan of a configuration with all its microbatches.
Exact with_stages(Evaluator& evaluator, const Configuration& configuration, const std::vector<StagePlan>& stages);

// Of the cluster's first type of device, whose times balance the cuts.
const std::vector<UnitCost>& units_of(Evaluator& evaluator, const Configuration& configuration);

}  // namespace panpipe::planner
