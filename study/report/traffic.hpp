// The traffic of a step, and the part of it for which the compute lanes were idle or waited. Of steps in a row, their mean over
// the windows in which the period is measured.
#pragma once

#include <cstdint>
#include <vector>

#include "present/result/read_result.hpp"

namespace panpipe::study {

// A lane of a device.
struct LaneTraffic {
  std::int32_t device = 0, rank = 0;
  Lane lane{};
  std::int64_t count = 0, bytes = 0;
  double busy = 0;     // seconds with at least one transfer under way
  double exposed = 0;  // the part of it while the compute lane was idle
};

struct Traffic {
  std::vector<LaneTraffic> lanes;  // of devices with their own spans, by device and lane
  // Seconds of the step, as means over those devices: collectives inside and next to passes, hand-overs between stages,
  // reductions over replicas. They can overlap.
  double tensor = 0, pipeline = 0, data = 0;
};

Traffic traffic_of(const present::ResultDocument& result);

}  // namespace panpipe::study
