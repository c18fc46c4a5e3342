// Products in 8 bits: their selection, and the bytes and launches of their casts (docs/models/compute.md). Internal to this
// folder.
#pragma once

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

// True if operator i of the unit multiplies in 8 bits on this device and in this precision.
bool is_narrow(const UnitView& unit, int i, const DeviceRates& rates);

// The rates of such products.
DeviceRates narrow_rates(const DeviceRates& rates);

// Bytes in 8 bits, scales included, relative to the common format.
double narrow_width(const DeviceRates& rates);

// Casts of a product's activations: of its inputs, unless an earlier product in the unit reads the same, and of its result's
// gradient.
struct Casts {
  double forward = 0, backward = 0;  // bytes
  int forward_launches = 0, backward_launches = 0;
};
Casts casts_of(const UnitView& unit, int i, const DeviceRates& rates);

// Under sequence parallelism: true if only products in 8 bits read the result that operator i gathers, or made the gradient that
// it sends back. The bytes then travel in 8 bits.
bool gathers_narrow(const UnitView& unit, int i, const DeviceRates& rates);
bool gathers_narrow_gradient(const UnitView& unit, int i, const DeviceRates& rates);

// Bytes per element moved by casting a weight, for both directions in which products read it.
double narrow_weight_cast(const DeviceRates& rates);

}  // namespace panpipe
