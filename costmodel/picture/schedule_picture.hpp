// Pictures of orders evaluated with plain costs (`panpipe schedule NAME -o FILE.svg`).
#pragma once

#include "costmodel/picture/picture.hpp"
#include "costmodel/schedule/schedule.hpp"

namespace panpipe {

Picture picture_of(const Schedule& schedule, const ScheduleEvaluation& evaluation);

}  // namespace panpipe
