// Pictures of orders evaluated with plain costs (`panpipe schedule NAME -o FILE.svg`).
#pragma once

#include "present/picture/picture.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::present {

Picture picture_of(const Schedule& schedule, const ScheduleEvaluation& evaluation);

}  // namespace panpipe::present
