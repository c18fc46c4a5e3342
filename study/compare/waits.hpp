// The reasons for idle time of a device's compute lane.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe::study {

struct Wait {
  double idle = 0, transit = 0;  // seconds; transit: the part of it while the awaited transfer was under way
};
using WaitKey = std::tuple<std::int32_t, std::string, std::int32_t>;  // (device, reason, peer)

// Assigns every gap of every compute lane, from 0 to the step's end, to the last input of the action after it.
std::map<WaitKey, Wait> waits_of(const Timeline& timeline);

}  // namespace panpipe::study
