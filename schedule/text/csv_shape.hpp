// The shape of a schedule, found from the rows of a CSV file: stages, places, microbatches. The reader uses it if header lines
// state nothing, the writer to find out which header lines are needed.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct ScheduleShape {
  int stages = 0, microbatches = 0, splits = 1;
  std::vector<int> stage_to_rank;  // -1: no row has the stage
  std::vector<std::vector<int>>
      chains;  // one, through all stages in ascending order; two halves when the order runs from both ends
  bool operator==(const ScheduleShape&) const = default;
};

// Takes room for the largest stage number. Microbatches: the most that any stage forwards, so that one wrong number does not
// change the count.
ScheduleShape shape_of_rows(const std::vector<std::vector<Action>>& rows);

}  // namespace panpipe
