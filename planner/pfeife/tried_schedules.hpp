// The schedules that a search tries: what the scenario leaves open of them.
#pragma once

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::planner {

struct TriedSchedule {
  std::string name;  // family
  ScheduleOptions options;
  Schedule schedule;
};
std::string to_text(const TriedSchedule& member);  // "pfeife, stages_per_rank 2, loop_batch 8, prefetch 1"

struct TriedSchedules {
  std::vector<TriedSchedule> members;
  std::vector<std::string> absent;  // those that do not exist for these sizes, with the reason
};

// With `stages_per_rank` stages on each rank where the family has a choice. Order: as enumerated by Pfeife's planner (loop_batch
// ascending, then prefetch), then other families. `split_backward`: weight gradients can run apart.
TriedSchedules tried_schedules(const Scenario& scenario, int stages_per_rank, bool split_backward);

// Whether a family of more stages per rank is another one.
bool chooses_stages(const Scenario& scenario);

}  // namespace panpipe::planner
