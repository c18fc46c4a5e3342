// The cost of a run of units as a stage, in constant time from prefix sums of the lowering's own drafts; for callers that query
// many cuts. With tensor-parallel collectives a stage may take less than its units one by one, because one unit's collective
// hides behind the next unit's compute.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "base/index.hpp"
#include "costmodel/plan/held_parameters.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "schedule/action.hpp"

namespace panpipe {

// Sums of a pass over the units before each unit: [units + 1]. Seconds on one device.
struct PassSums {
  std::vector<double> device;       // on idle links, without `synchronous`
  std::vector<double> synchronous;  // compute after a synchronisation of host and device: outside the host's norm
  std::vector<double> compute;      // of both, without collectives and their slow-down
  std::vector<double> launches;
  std::vector<double> host;  // seconds of other work of the host
};

// A parameter that several units use.
struct TiedParameter {
  HeldParameters held;     // it alone
  std::vector<int> units;  // ascending, each once
};

class StageTable {
 public:
  // `costs` must outlive the table. `modes` lists the recompute modes that will be queried.
  StageTable(const Scenario& scenario, const LoweringCosts& costs, int site, const std::set<Recompute>& modes);

  int units() const { return units_; }
  // Sums of F, I, W or B for one microbatch, before the host's part and jitter. Recompute counts in the backward: in I and B.
  const PassSums& sums(ActionKind kind, Recompute mode) const {
    switch (kind) {
      case ActionKind::F:
        return forward_;
      case ActionKind::W:
        return weight_;
      case ActionKind::I:
        return input_[at(mode)];
      default:
        return whole_[at(mode)];
    }
  }
  // One component of the sums for a pass of units [first, end) of a stage. Accounts for stages that recompute only their first
  // blocks.
  double sum(std::vector<double> PassSums::*part, ActionKind kind, Recompute mode, int first, int end) const;
  // The least sums of consecutive units in any stage.
  const PassSums& least_sums(ActionKind kind, Recompute mode) const {
    return sums(kind, recompute_first_ > 0 ? Recompute::None : mode);
  }
  bool recomputes_first_blocks() const { return recompute_first_ > 0; }
  // Seconds of a pass of units [first, end), without jitter: of what the host launches, with the host's part; and of the whole
  // pass, on the device alone and with the host's part.
  double launched(ActionKind kind, Recompute mode, int first, int end) const;
  double device(ActionKind kind, Recompute mode, int first, int end) const;
  double time(ActionKind kind, Recompute mode, int first, int end) const;

  bool has_collectives() const { return has_collectives_; }
  bool synchronises() const { return synchronises_; }
  // The first unit with the same costs as unit `u`.
  int like(int u) const { return like_[u]; }
  int distinct() const { return distinct_; }

  // Prefix sums before each unit: elements of trained parameters (a tied one at each use) that the optimizer steps one by one,
  // and the tensors that hold them; and known seconds of its step, of matrices by one rank.
  const std::vector<std::int64_t>& elements() const { return elements_; }
  const std::vector<std::int64_t>& tensors() const { return tensors_; }
  const std::vector<double>& given_optimizer() const { return given_optimizer_; }
  const std::vector<TiedParameter>& tied() const { return tied_; }
  HeldParameters held(int first, int end) const;  // by units [first, end)

 private:
  template <class Visit>
  void each_sums(const std::set<Recompute>& modes, Visit visit);
  void draft_units(const Scenario& scenario, const WorkloadCost& workload, const std::set<Recompute>& modes);
  void find_alike(const WorkloadCost& workload);
  void add_parameters(const WorkloadCost& workload);

  const LoweringCosts& costs_;
  int site_ = 0, units_ = 0, distinct_ = 0, recompute_first_ = 0;
  bool has_collectives_ = false, synchronises_ = false;
  std::vector<int> like_;
  PassSums forward_, weight_;
  std::array<PassSums, 3> input_, whole_;  // by Recompute
  std::vector<HeldParameters> uses_;       // before each unit, a tied parameter at each use
  std::vector<std::int64_t> elements_, tensors_;
  std::vector<double> given_optimizer_;
  std::vector<TiedParameter> tied_;
};

}  // namespace panpipe
