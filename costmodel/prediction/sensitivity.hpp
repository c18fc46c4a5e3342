// How a predicted step depends on what determines it: the logarithmic derivatives of its time, from the lowering and one replay.
// docs/models/uncertainty.md.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// What machines and trainers differ in. The first seven are times that may all be longer by one factor; the last two are
// switches.
enum class Direction : std::uint8_t {
  Everything,
  Products,         // matrix products
  MemoryTraffic,    // element-wise operators, normalizations, loss, optimizer
  Attention,        // the attention core
  Host,             // launches, and the host's work once per step
  Node,             // collectives and transfers inside a node, copies to and from the host
  Network,          // collectives and transfers between nodes
  Exposure,         // no collective runs next to compute
  Synchronisation,  // no launch is hidden behind the device
};
constexpr std::size_t kDirections = 9;
std::string_view name_of(Direction direction);  // "everything", "products", "memory traffic", ...

// Indexed by Direction. Of a factor x on times: d ln T / d ln x, a share of the critical path. Of a switch: ln of the step with
// it over the step without.
using Sensitivity = std::array<double, kDirections>;

// Shares of the critical path of `times`, which hold the collectives inside passes of the busiest rank's device
// (estimate_times_of).
Sensitivity sensitivity_of(const TaskGraph& graph, const TaskTimes& times);

}  // namespace panpipe
