// The fixed parts of a scenario in a search over cuts, and costs in O(1) for any cuts. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/cut_links.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "planner/pfeife/stage_ticks.hpp"

namespace panpipe::planner {

// The recompute mode of each stage along the chain; empty = all in the fastest mode.
using Modes = std::vector<Recompute>;

// The union of both lists, in order.
std::vector<StageLink> united(std::vector<StageLink> a, const std::vector<StageLink>& b);

class SearchSpace {
 public:
  explicit SearchSpace(const Experiment& experiment);

  const Scenario& scenario() const { return scenario_; }
  const LoweringCosts& costs() const { return costs_; }
  const StageTicks& stages() const { return stage_costs_; }
  const CutLinks& crossings() const { return crossings_; }
  int units() const { return stage_costs_.units(); }
  int ranks() const { return base_.pipeline; }
  int site_of_rank(int rank) const { return sites_[rank]; }
  int device_of_rank(int rank) const { return base_.device(rank, 0, 0); }

  // Lowers the plan with one byte for each of these links, instead of the tensors that cross its cuts.
  TaskGraph lowered_with(const Plan& plan, const std::vector<StageLink>& links, const Cuts& cuts) const;
  // Links that occurred for some cuts into this many stages; schedules with as many stages start with all of them. `add_links` is
  // not thread-safe.
  const std::vector<StageLink>& known_links(int stages) const;
  void add_links(int stages, const std::vector<StageLink>& links);
  bool has_optimizer() const { return has_optimizer_; }  // its step takes time, or part of it is reduced by size

  // A plan of this schedule with these cuts.
  Plan plan(const Schedule& schedule, const Cuts& cuts, const Modes& modes = {}) const;
  void set_cuts(Plan& plan, const Cuts& cuts, const Modes& modes) const;  // for a plan with one chain
  // Ticks of a transfer between the first devices of two ranks.
  double transfer(int from_rank, int to_rank, std::int64_t bytes) const;
  // The same for the tensors that a unit passes to the next one, indexed by the cut before that unit: one value per unit.
  const Sums& hops(int from_rank, int to_rank, bool gradient) const;
  // Ticks of the optimizer step of a rank with these sums, and its lower bound per element.
  double optimizer(std::int64_t elements, std::int64_t tensors, double given_seconds, int type) const;
  double optimizer_per_element(int type) const;

 private:
  const Scenario& scenario_;
  Plan base_;  // degrees and devices
  ModelCosts costs_;
  std::vector<int> sites_;  // of the ranks
  StageTicks stage_costs_;
  CutLinks crossings_;
  bool has_optimizer_ = false;
  const CostModel& model_;
  std::map<int, std::vector<StageLink>> known_links_;
  mutable std::mutex mutex_;                                    // guards the members below
  mutable std::vector<std::shared_ptr<class EdgeCosts>> idle_;  // its copies of all units take longer than a lowering
  mutable std::map<std::tuple<int, int, bool>, Sums> hops_;
};

}  // namespace panpipe::planner
