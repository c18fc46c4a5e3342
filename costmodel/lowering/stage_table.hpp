// What a run of units costs as a stage, in constant time: sums over the units of what the lowering's own drafts say of each. For
// whoever asks for many cuts. Beside tensor-parallel collectives a stage may take less than its units one by one: one unit's
// collective hides behind the next unit's compute.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "costmodel/plan/lowering_costs.hpp"
#include "schedule/action.hpp"

namespace panpipe {

// Of a pass, over the units before each unit: [units + 1]. Seconds on one device.
struct PassSums {
  std::vector<double> device;       // on idle links, without what follows
  std::vector<double> synchronous;  // compute behind a meeting of host and device: outside the host's norm
  std::vector<double> compute;      // of both, without collectives and without what they slow down
  std::vector<double> launches;
};

// A parameter that several units use.
struct TiedParameter {
  std::int64_t elements = 0;
  std::vector<int> units;  // ascending, each once
};

class StageTable {
 public:
  // `costs` must outlive it. `modes`: the ways to recompute that will be asked for.
  StageTable(const Scenario& scenario, const LoweringCosts& costs, int site, const std::set<Recompute>& modes);

  int units() const { return units_; }
  // Of F, I, W or B, one microbatch, before the host's part and jitter. Recompute stands in the backward: in I and B.
  const PassSums& sums(ActionKind kind, Recompute mode) const {
    switch (kind) {
      case ActionKind::F:
        return forward_;
      case ActionKind::W:
        return weight_;
      case ActionKind::I:
        return input_[static_cast<std::size_t>(mode)];
      default:
        return whole_[static_cast<std::size_t>(mode)];
    }
  }
  // Of a pass of units [first, end) of a stage, one part of its sums: where the stage recomputes its first blocks only, as it
  // does.
  double sum(std::vector<double> PassSums::*part, ActionKind kind, Recompute mode, int first, int end) const;
  // The least that one unit after another takes, of any stages.
  const PassSums& least_sums(ActionKind kind, Recompute mode) const {
    return sums(kind, recompute_first_ > 0 ? Recompute::None : mode);
  }
  bool recomputes_first_blocks() const { return recompute_first_ > 0; }
  // What the host adds to the device time of a pass of units [first, end), as a factor.
  double host_factor(ActionKind kind, Recompute mode, int first, int end) const;
  // Seconds of such a pass on the device alone; and with the host's part. Without jitter.
  double device(ActionKind kind, Recompute mode, int first, int end) const;
  double time(ActionKind kind, Recompute mode, int first, int end) const;

  bool has_collectives() const { return has_collectives_; }
  bool synchronises() const { return synchronises_; }
  // The first unit that costs what unit `u` costs.
  int like(int u) const { return like_[static_cast<std::size_t>(u)]; }
  int distinct() const { return distinct_; }

  // Before each unit: elements of parameters (a tied one at each of its uses), bytes of those that are given in bytes, and given
  // seconds of the optimizer step.
  const std::vector<std::int64_t>& elements() const { return elements_; }
  const std::vector<std::int64_t>& given() const { return given_; }
  const std::vector<double>& given_optimizer() const { return given_optimizer_; }
  const std::vector<TiedParameter>& tied() const { return tied_; }
  // Elements of units [first, end), each parameter once.
  std::int64_t elements_held(int first, int end) const;

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
  std::vector<std::int64_t> elements_, given_;
  std::vector<double> given_optimizer_;
  std::vector<TiedParameter> tied_;
};

}  // namespace panpipe
