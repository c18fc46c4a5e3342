// A schedule as the user requests it: a family's name or a file, with options and pass costs as text.
#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.hpp"

namespace panpipe {

struct ScheduleRequested {
  std::string name_or_file;  // a family's name, or a CSV file with an order
  std::optional<int> ranks, microbatches;
};

// Throws InputError for an unknown name, a family without both sizes, a file of other sizes, or an unknown option.
Schedule obtain_schedule(const ScheduleRequested& asked, const ScheduleOptions& options, const PassCosts& costs);

// Removes `braid` from the options and returns whether groups are split. The option affects the evaluation, not the order.
bool take_braid(ScheduleOptions& options);

// Parses "F=10,I=12,W=8,comm=1"; "F=1/1/2/1" gives one value per stage. Throws InputError for anything else.
PassCosts parse_pass_costs(const std::string& text);

}  // namespace panpipe
