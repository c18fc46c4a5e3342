// Infers the shape of a schedule from the rows of a CSV file: stages, placement, microbatches. The reader uses it when header
// lines are missing; the writer uses it to decide which header lines are needed.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct ScheduleShape {
  int stages = 0, microbatches = 0, splits = 1;
  std::vector<int> stage_to_rank;  // -1: no row contains the stage
  std::vector<std::vector<int>>
      chains;  // one, through all stages in ascending order; two halves when the order runs from both ends
  bool operator==(const ScheduleShape&) const = default;
};

// Memory grows with the largest stage number. `microbatches` is the largest number of forwards of any stage, so one wrong number
// does not change it.
ScheduleShape shape_of_rows(const std::vector<std::vector<Action>>& rows);

}  // namespace panpipe
