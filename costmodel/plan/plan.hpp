// A plan: partition + placement + parallel degrees + schedule + recompute. Every engine takes it as it is.
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
};

struct Plan : Degrees {
  Schedule schedule;
  std::vector<StagePlan> stages;
  std::vector<int> devices;  // device of position (pipeline, data, context, tensor), tensor fastest, then context

  // replica = data index x context degree + context index.
  int device(int rank, int replica, int tensor_index) const {
    return devices[static_cast<std::size_t>((rank * replicas() + replica) * tensor + tensor_index)];
  }
};

// What a plan is asked for: the part of a scenario that a search over plans varies.
struct PlanRequest {
  Degrees degrees;
  ScheduleRequest schedule;
  std::vector<std::string> partition;  // as in the scenario
  std::vector<int> cuts;               // of a search: the first unit of each stage after the first; goes before `partition`
  std::optional<std::vector<int>> placement;
  Recompute recompute = Recompute::None;
};
PlanRequest request_of(const Scenario& scenario);

// Its schedule, its cuts (or a balanced partition), the default placement. Throws InputError when
// the parts do not fit (ranks against devices, stages against units, microbatches against the schedule), NoAnswer when the
// schedule is illegal; faults stand at the scenario's keys. On devices without rates `auto` balances floating-point operations.
Plan make_plan(const Scenario& scenario, const PlanRequest& request, const CostModel& model);
inline Plan make_plan(const Scenario& scenario, const CostModel& model) {
  return make_plan(scenario, request_of(scenario), model);
}

// Cuts that balance time (forward + backward of every unit) over `stages` contiguous stages: the largest stage is least, and
// among those the most even; dynamic programme over units, exact. Returns the first unit of each stage after the first.
std::vector<int> balanced_partition(const std::vector<Duration>& unit_times, int stages);

// Reads / writes plan.yaml (docs/file-formats.md): lossless. The scenario is one that was loaded with this plan file, or agrees
// with it; InputError at the key of the plan that it contradicts.
std::string to_yaml(const Plan& plan, const WorkloadCost& names);
Plan load_plan(const std::string& path, const Scenario& scenario, const CostModel& model);

}  // namespace panpipe
