// Times and saved memory of each operator, which show how the time of a unit comes about. Operators are timed one at a time, so
// their sum slightly exceeds the unit's profiled time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// Of one operator, medians over the repetitions.
struct OperatorRow {
  int op = 0;                        // of the graph
  double forward = 0, backward = 0;  // seconds
  std::int64_t saved = 0;            // bytes that it made and that stay for the backward
};

// Operators of unit `unit` (a stage of plan_of_units()), in graph order; communicating ones are left out. `parameters` hold what
// the unit uses, for tensor-parallel rank `shard`. `autocast`: as a run of this graph and precision has it.
std::vector<OperatorRow> measure_operators(const OperatorGraph& graph, const StageLayout& layout, int unit,
                                           const ParameterStore& parameters, std::uint64_t seed, int repetitions,
                                           at::Device device, DeviceMemory& memory, std::optional<at::ScalarType> autocast);

// docs/file-formats.md: a line per operator, with its unit, module path, shapes.
std::string operators_csv(const OperatorGraph& graph, const std::vector<OperatorRow>& rows);

}  // namespace panpipe::exec
