// Costs written by hand, for tests of the lowering: a chain of units on devices without rates.
#pragma once

#include <string>
#include <vector>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "costmodel/plan/plan.hpp"

namespace panpipe::test {

// Every number is plain and settable; the defaults are those of measured layers.
class TableCosts : public LoweringCosts {
 public:
  WorkloadCost table;
  Duration latency{0};  // of a transfer
  // Of a collective over data or pipeline ranks: what any takes, a latency of it, and seconds a byte by what it is.
  Duration collective_time{0}, collective_latency{0};
  double gather_per_byte = 0, scatter_per_byte = 0, sum_per_byte = 0;
  double host_floor = 0;  // host_bound: at least this many seconds per launch
  double slowdown = 0;    // share of a hidden collective that comes back
  double jitter = 1;
  bool is_measured = true;
  double optimizer_per_element = 0, optimizer_per_tensor = 0;  // seconds
  double accumulation_per_element = 0;                         // seconds of a backward pass

  const WorkloadCost& workload(int) const override { return table; }
  TransferCost transfer(int from, int to, Bytes bytes) const override;
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const override;
  Breakdown optimizer(std::int64_t elements, std::int64_t, int) const override;
  Breakdown accumulation(std::int64_t others, std::int64_t experts, int splits, int) const override;
  Duration host_bound(Duration device, const HostWork& work, int) const override;
  Duration overlap_slowdown(Duration collective, int) const override { return collective * slowdown; }
  double stage_jitter(int) const override { return jitter; }
  bool measured() const override { return is_measured; }
};

PassCost pass_of(double seconds);

// Appends collective 0 of the table, which takes `time`.
void add_collective(PassCost& pass, Duration time, bool hidden = false);

// A unit of the given seconds; it saves `saved` bytes and holds parameter `index` of 100 elements.
UnitCost unit_of(int index, double forward, double input, double weight, std::int64_t saved = 0);

// `count` equal units, each feeding the next `bytes`.
TableCosts chain_of(int count, double forward, double input, double weight, std::int64_t saved = 0, std::int64_t bytes = 8);

// Units of 10, 20 and 4 ms; 4 ms of the forward and 8 ms of the input gradient are attention. 1600 bytes are kept.
TableCosts attention_units(int count);

// Units of 10, 12 and 7 ms whose collectives take their time for their bytes, a little more than it: the same on links that
// nobody shares in both engines.
TableCosts flows_of(int count, double second_per_gathered_byte, double second_per_byte);

// A scenario with that many devices of 1 GB and the given schedule.
Scenario scenario_of(int pipeline, int microbatches, const std::string& schedule, int stages_per_rank = 1, int data = 1);

inline TaskGraph lowered(const Scenario& scenario, const LoweringCosts& costs) {
  return lower(scenario, make_plan(scenario, costs), costs);
}

// Seconds, as estimated.
inline double step(const Scenario& scenario, const LoweringCosts& costs) {
  return estimate(lowered(scenario, costs)).step_time.base();
}

}  // namespace panpipe::test
