// Kernels of a unit: memory traffic of element-wise operators and normalizations, and all kernel launches. Internal to this
// folder.
#pragma once

#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

struct OperatorTraffic {
  double forward = 0;   // bytes
  double backward = 0;  // bytes, in the input-gradient pass
};

// Number of kernels that an operator launches on the device.
struct OperatorLaunches {
  int forward = 0;
  int backward = 0;  // of both gradients together
  int weight = 0;    // the part of these for weight gradients: products, their casts and sums
};

// Traffic per operator of the unit, except that of matrix products, attention scores, embedding and loss, at an element-wise
// factor of 1 and under the framework's choices (`rates`). Rules: docs/models/compute.md.
std::vector<OperatorTraffic> elementwise_traffic(const UnitView& unit, const DeviceRates& rates);

// Kernels of every operator of the unit under the framework's choices, including products and attention. Rules:
// docs/models/compute.md.
std::vector<OperatorLaunches> counted_launches(const UnitView& unit, const DeviceRates& rates);

// True if operator i adds two activations of the same shape (a residual connection).
bool is_residual_sum(const UnitView& unit, int i);

// True if it adds the unit's own input, unlike a sum inside such as a rotary embedding's.
bool adds_input(const UnitView& unit, int i);

// True if operator i works on activations that every tensor-parallel rank holds completely (a normalization, a residual sum).
bool is_replicated(const UnitView& unit, int i);

// True if the unit's graph contains dropout.
bool has_dropout(const UnitView& unit);

}  // namespace panpipe
