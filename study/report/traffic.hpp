// What travelled, and how much of it the compute lanes stood idle or waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "present/result/result_document.hpp"

namespace panpipe {

// A lane of a device.
struct LaneTraffic {
  std::int32_t device = 0, rank = 0;
  Lane lane{};
  std::int64_t count = 0, bytes = 0;
  double busy = 0;     // seconds with at least one under way
  double exposed = 0;  // of it, while the compute lane was idle
};

struct Traffic {
  std::vector<LaneTraffic> lanes;  // of devices with spans of their own, by device and lane
  // Seconds of the step, means over those devices: collectives inside passes and beside them, hand-overs between stages,
  // reductions over replicas. They can overlap.
  double tensor = 0, pipeline = 0, data = 0;
};

Traffic traffic_of(const ResultDocument& result);

}  // namespace panpipe
