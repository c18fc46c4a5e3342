// Products in 8 bits: which they are, what their casts move and launch (docs/models/compute.md). Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

// Does operator i of the unit multiply in 8 bits, on this device and in this precision?
bool in_8_bits(const UnitView& unit, int i, const DeviceRates& rates);

// The rates of its products.
DeviceRates rates_in_8_bits(const DeviceRates& rates);

// Bytes in 8 bits over those in the format of everything else, scales included.
double width_in_8_bits(const DeviceRates& rates);

// The casts of its activations: of what it reads, unless a product before it in the unit reads the same, and of its result's
// gradient.
struct Casts {
  double forward = 0, backward = 0;  // bytes
  int forward_launches = 0, backward_launches = 0;
};
Casts casts_of(const UnitView& unit, int i, const DeviceRates& rates);

// Under sequence parallelism only products in 8 bits read what operator i gathers, or made what it sends the gradient back to: so
// the bytes travel in 8 bits.
bool gathers_8_bits(const UnitView& unit, int i, const DeviceRates& rates);
bool gathers_gradient_in_8_bits(const UnitView& unit, int i, const DeviceRates& rates);

// Bytes an element that casting a weight moves, in both directions in which products read it.
double weight_cast_in_8_bits(const DeviceRates& rates);

}  // namespace panpipe
