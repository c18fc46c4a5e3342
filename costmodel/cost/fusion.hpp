// Kernels of a unit: memory traffic of element-wise operators and normalizations, launches of all. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

struct OperatorTraffic {
  double forward = 0;   // bytes
  double backward = 0;  // bytes, in the input-gradient pass
};

// Kernels that an operator is on the device.
struct OperatorLaunches {
  int forward = 0;
  int backward = 0;  // of both gradients
  int weight = 0;    // of these, the gradients of weights: products, their casts and sums
};

// Traffic besides that of matrix products, attention scores, embedding and loss, per operator of the unit, at an
// element-wise factor of 1, under the framework's choices (`rates`). The rules: docs/models/compute.md.
std::vector<OperatorTraffic> elementwise_traffic(const UnitView& unit, const DeviceRates& rates);

// Kernels of every operator of the unit under the framework's choices, products and attention included. The rules:
// docs/models/compute.md.
std::vector<OperatorLaunches> counted_launches(const UnitView& unit, const DeviceRates& rates);

// Is operator i the sum of two activations of one shape (a residual connection)?
bool is_residual_sum(const UnitView& unit, int i);

// Is it one of the unit's own input (not a sum inside, as of a rotary embedding)?
bool adds_input(const UnitView& unit, int i);

// Does operator i work on activations that every tensor-parallel rank holds whole (a normalization, a residual sum)?
bool is_replicated(const UnitView& unit, int i);

// Does the unit have dropout of its own in the graph?
bool has_dropout(const UnitView& unit);

}  // namespace panpipe
