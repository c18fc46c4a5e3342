// A plan: partition, placement, parallel degrees, schedule and recompute. Every engine accepts it unchanged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

struct StagePlan {
  int first_unit = 0;  // units [first_unit, end_unit) of the workload
  int end_unit = 0;
  Recompute recompute = Recompute::None;
  int recompute_first = 0;  // number of its first blocks that recompute; 0: of those that the scenario states (RecomputeScope)
};

struct Plan : Degrees {
  Schedule schedule;
  std::vector<StagePlan> stages;
  std::vector<int> devices;    // device of position (pipeline, data, context, tensor), tensor fastest, then context
  std::vector<int> lengths{};  // of (data replica, microbatch): the shape of its sequences in Scenario::lengths; empty: all alike

  int length_of(int replica, int microbatch) const {
    return lengths.empty() ? 0 : lengths[replica / context * microbatches + microbatch % microbatches];  // of steps in a row too
  }
  // replica = data index x context degree + context index.
  int device(int rank, int replica, int tensor_index) const {
    return devices[(rank * replicas() + replica) * tensor + tensor_index];
  }
};

// The request for a plan: the part of a scenario that a search over plans varies.
struct PlanRequest {
  Degrees degrees;
  ScheduleRequest schedule;
  std::vector<std::string> partition;  // as in the scenario
  std::vector<int> cuts;  // set by a search: the first unit of each stage after the first; takes precedence over `partition`
  std::optional<std::vector<int>> placement;
  Recompute recompute = Recompute::None;
};
PlanRequest request_of(const Scenario& scenario);

// Makes the requested schedule, the requested cuts or a balanced partition, and the requested or default placement. Throws
// InputError if the parts do not fit (ranks and devices, stages and units, microbatches and schedule) and NoAnswer if the
// schedule is illegal; faults point to the scenario's keys. On devices without rates `auto` balances floating-point operations.
Plan make_plan(const Scenario& scenario, const PlanRequest& request, const CostModel& model);
inline Plan make_plan(const Scenario& scenario, const CostModel& model) {
  return make_plan(scenario, request_of(scenario), model);
}

// Cuts that balance time (forward + backward of every unit) over `stages` contiguous stages. The largest stage is minimal, and
// among such cuts the most even is chosen; an exact dynamic programme over units. Returns the first unit of each stage after the
// first.
std::vector<int> balanced_partition(const std::vector<Duration>& unit_times, int stages);

// Read and write plan.yaml (docs/file-formats.md) without loss. The scenario was loaded with this plan file, or agrees with it;
// otherwise load_plan throws InputError at the contradicting key of the plan.
std::string to_yaml(const Plan& plan, const WorkloadCost& names);
Plan load_plan(const std::string& path, const Scenario& scenario, const CostModel& model);

}  // namespace panpipe
