// A schedule as users ask for it: a family by name, or a file; its options and the costs of its passes as text.
#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.hpp"

namespace panpipe {

struct ScheduleRequested {
  std::string name_or_file;  // a family, or a CSV file with an order
  std::optional<int> ranks, microbatches;
};

// InputError: neither a family nor a file, a family without both sizes, a file of other sizes, an option that it does not have.
Schedule obtain_schedule(const ScheduleRequested& asked, const ScheduleOptions& options, const PassCosts& costs);

// Takes `braid` out of the options: it says how groups are evaluated, not how the order is made. Whether groups are split.
bool take_braid(ScheduleOptions& options);

// "F=10,I=12,W=8,comm=1"; "F=1/1/2/1": of each stage. InputError for anything else.
PassCosts parse_pass_costs(const std::string& text);

}  // namespace panpipe
