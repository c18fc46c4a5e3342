// Measures time and saved memory of each operator, to explain the time of a unit. Operators are timed one at a time, so their sum
// slightly exceeds the unit's profiled time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// One operator; medians over the repetitions.
struct MeasuredOperator {
  int op = 0;                        // index in the graph
  double forward = 0, backward = 0;  // seconds
  std::int64_t saved = 0;            // bytes that it makes and keeps for the backward
};

// Measures operators of unit `unit` (a stage of plan_of_units()), in graph order, without communicating ones. `parameters` hold
// the unit's parameters for tensor-parallel rank `shard`. `autocast`: as in a run of this graph and precision.
std::vector<MeasuredOperator> measure_operators(const OperatorGraph& graph, const StageLayout& layout, int unit,
                                                const ParameterStore& parameters, std::uint64_t seed, int repetitions,
                                                at::Device device, DeviceMemory& memory, std::optional<at::ScalarType> autocast);

// docs/file-formats.md: one line per operator, with its unit, module path, shapes.
std::string operators_csv(const OperatorGraph& graph, const std::vector<MeasuredOperator>& rows);

}  // namespace panpipe::exec
