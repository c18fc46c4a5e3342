// Products in 8 or 4 bits: their selection, and the bytes and launches of their casts, all from the recipe's row
// (costmodel/profile/recipe.hpp, docs/models/compute.md). Internal to this folder.
#pragma once

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

// True if operator i of the unit multiplies in the recipe's format.
bool is_narrow(const UnitView& unit, int i, const DeviceRates& rates);

// The rates of such products. `multiplies`: whether those of this pass do (Recipe::forward, ...).
DeviceRates narrow_rates(const DeviceRates& rates, bool multiplies);

// Bytes of an activation in the recipe's format, scales included, relative to the common format.
double narrow_width(const DeviceRates& rates);

// Operator i keeps its input in the recipe's format, for its weight's gradient.
bool keeps_narrow(const UnitView& unit, int i, const DeviceRates& rates);

// Casts of a product's activations: of its inputs, unless an earlier product in the unit reads the same, and of its result's
// gradient.
struct Casts {
  double forward = 0, backward = 0;  // bytes x Recipe::cast_factor
  int forward_launches = 0, backward_launches = 0;
};
Casts casts_of(const UnitView& unit, int i, const DeviceRates& rates);

// Under sequence parallelism: true if only such products read the result that operator i gathers, or made the gradient that it
// sends back, and the recipe gathers them so.
bool gathers_narrow(const UnitView& unit, int i, const DeviceRates& rates);
bool gathers_narrow_gradient(const UnitView& unit, int i, const DeviceRates& rates);

// Of a weight: bytes of an element of all its copies, and bytes per element that casting it moves (x Recipe::cast_factor), where
// the step leaves it in 2 bytes or (`in_place`) in the recipe's format.
double narrow_weight_copies(const DeviceRates& rates);
double narrow_weight_cast(const DeviceRates& rates, bool in_place);

}  // namespace panpipe
