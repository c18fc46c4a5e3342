// The schedules that a search tries, where the scenario leaves the schedule open.
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

// With `stages_per_rank` stages on each rank if the family has a choice. Ordered as Pfeife's planner enumerates them (loop_batch
// ascending, then prefetch), then other families. `split_backward`: weight gradients can run separately.
TriedSchedules tried_schedules(const Scenario& scenario, int stages_per_rank, bool split_backward);

// True if more stages per rank give other families to try.
bool chooses_stages(const Scenario& scenario);

}  // namespace panpipe::planner
