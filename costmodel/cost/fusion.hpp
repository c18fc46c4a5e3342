// Kernels of a unit: memory traffic of element-wise operators and normalizations, and all launches. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/unit_template.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

// The kernels of an operator, and the bytes that they move: without those of matrix products, attention scores, embedding and
// loss, at an element-wise factor of 1; launches of all.
struct OperatorKernels : KernelCounts {
  double forward = 0;   // bytes
  double backward = 0;  // bytes, in the input-gradient pass

  void launch(int in_forward, int in_backward) {
    forward_launches += in_forward;
    backward_launches += in_backward;
  }
};

// Under the framework's choices (`rates`). Rules: docs/models/compute.md.
std::vector<OperatorKernels> unit_kernels(const UnitView& unit, const DeviceRates& rates);

// True if operator i adds two activations of the same shape (a residual connection).
bool is_residual_sum(const UnitView& unit, int i);

// True if it adds the unit's own input, unlike a sum inside such as a rotary embedding's.
bool adds_input(const UnitView& unit, int i);

// True if the model's Python code makes a normalization of operators.
bool normalizes_in_operators(const UnitView& unit, int i, const DeviceRates& rates);

// True if it makes GELU of operators: 0.5 x (1 + tanh(c (x + d x^3))).
bool activates_in_operators(const UnitView& unit, int i, const DeviceRates& rates);

// True if operator i works on activations that every tensor-parallel rank holds completely (a normalization, a residual sum).
bool is_replicated(const UnitView& unit, int i);

// True if operator i, between dispatch and combination, is launched for each expert of a rank.
bool launches_for_each_expert(const UnitView& unit, int i, const DeviceRates& rates);

// True if the framework applies dropout that the unit's graph lacks.
bool adds_masks(const UnitView& unit, const DeviceRates& rates);

}  // namespace panpipe
