// What the calls about orders read alike.
#pragma once

#include "schedule/schedule.hpp"
#include "web/engine/call.hpp"

namespace panpipe::web {

// `costs` is text as panpipe schedule --costs takes it, or {"F": 1, "I": [1, 2], "comm": 0}.
PassCosts costs_of(const Call& call);

// `parameters` without `braid`. `split`: whether groups run one by one.
ScheduleOptions options_of(const Call& call, bool& split);

// The order of `csv`, or of `family` with `parameters`. `split`: whether groups run one by one.
Schedule schedule_of(const Call& call, const PassCosts& costs, bool& split);

}  // namespace panpipe::web
