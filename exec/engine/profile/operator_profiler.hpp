// Measures time and saved memory of each operator, to explain the time of a unit. Operators are timed one at a time, so their sum
// slightly exceeds the unit's profiled time.
#pragma once

#include <string>
#include <vector>

#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/profile/stopwatch.hpp"
#include "exec/engine/stage/stage.hpp"

namespace panpipe::exec {

// One operator; medians over the repetitions.
struct MeasuredOperator {
  int op = 0;                        // index in the graph
  double forward = 0, backward = 0;  // seconds
  std::int64_t saved = 0;            // bytes that it makes and keeps for the backward
};

// Measures the operators of a stage, in graph order, in whole passes with these inputs and gradients. `kept`: its parameters and
// buffers.
std::vector<MeasuredOperator> measure_operators(Stage& stage, const std::vector<at::Tensor>& inputs,
                                                const std::vector<at::Tensor>& kept,
                                                const std::vector<at::Tensor>& output_gradients, CallContext context,
                                                int repetitions, const Stopwatch& watch, const DeviceMemory& memory);

// docs/file-formats.md: one line per operator, with its unit, module path, shapes.
std::string operators_csv(const OperatorGraph& graph, const std::vector<MeasuredOperator>& rows);

}  // namespace panpipe::exec
