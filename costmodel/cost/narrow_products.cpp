#include "costmodel/cost/narrow_products.hpp"

#include "costmodel/cost/fusion.hpp"

namespace panpipe {
namespace {

// Bytes moved to make a tensor's copies. `part` elements are cast here, `whole` are read by the products: more if ranks gather
// their parts, which are then turned separately.
struct Quantised {
  double now = 0, later = 0;  // bytes, in the pass that makes the tensor and in the backward that turns it
  int launches = 0, turned = 0;
};

// `along_rows`, `along_columns`: whether a product in the format reads it so.
Quantised quantised(double part, double whole, bool from_norm, bool along_rows, bool along_columns, const DeviceRates& rates) {
  Quantised result;
  if (!along_rows && !along_columns) return result;
  const Recipe& recipe = *rates.narrow.recipe;
  // The normalization writes the format instead of its own, otherwise a kernel reads that. Its own stays where another product
  // reads it.
  const bool fused = from_norm && !recipe.reads_largest && rates.elementwise != Elementwise::Eager && along_rows && along_columns;
  const bool both = along_rows && along_columns && rates.narrow.two_copies();
  const bool at_once = both && (recipe.second == SecondCopy::Cast || (part >= whole && !fused));
  result.now = part * ((fused ? -rates.element : rates.element) + (at_once ? 2 : 1) * rates.narrow.operand);
  const bool found = from_norm && recipe.norm_finds_largest && rates.elementwise != Elementwise::Eager;
  const bool reads = recipe.reads_largest && !found;
  if (reads) result.now += part * rates.element;
  result.launches = (fused ? 0 : 1) + (reads ? 1 : 0);
  if (at_once || !both) return result;
  result.later = whole * 2 * rates.narrow.operand;
  result.turned = 1;
  return result;
}

double elements(const UnitView& unit, int t) { return static_cast<double>(unit.tensor(t).elements()); }

bool read_before(const UnitView& unit, int before, int source, const DeviceRates& rates) {
  for (int i = 0; i < before; ++i)
    if (is_narrow(unit, i, rates) && any_operand(unit.op(i), [&](int t) { return unit.activation(t) && unit.root(t) == source; }))
      return true;
  return false;
}

// True if the gradient of operator i's result is sent back by gathering parts of it.
bool gradient_is_gathered(const UnitView& unit, int i) {
  const auto is_result = [&](int t) { return unit.inside(unit.root(t)) && unit.tensor(unit.root(t)).producer - unit.first == i; };
  for (int j = i + 1; j < unit.size(); ++j)
    if (unit.op(j).backward_collective == CollectiveKind::AllGather && any_operand(unit.op(j), is_result)) return true;
  return false;
}

}  // namespace

bool is_narrow(const UnitView& unit, int i, const DeviceRates& rates) {
  return multiplies_narrow(*unit.graph, *unit.use, unit.first + i, rates.narrow);
}

DeviceRates narrow_rates(const DeviceRates& rates, bool multiplies) {
  DeviceRates result = rates;
  if (!multiplies) return result;
  result.gemm = rates.narrow.gemm;
  result.operand = rates.narrow.operand;
  return result;
}

double narrow_width(const DeviceRates& rates) { return rates.narrow.operand / rates.element; }

bool keeps_narrow(const UnitView& unit, int i, const DeviceRates& rates) {
  return is_narrow(unit, i, rates) && rates.narrow.recipe->weight_gradient;
}

Casts casts_of(const UnitView& unit, int i, const DeviceRates& rates) {
  Casts casts;
  const Recipe& recipe = *rates.narrow.recipe;
  const bool apart = unit.experts_of(i) > 0;  // rows of experts are gathered before they are cast
  for_each_operand(unit.op(i), [&](int t) {
    if (!unit.activation(t) || unit.tensor(t).dtype == DType::Int64) return;
    const int source = unit.root(t);
    if (read_before(unit, i, source, rates)) return;
    const double whole = elements(unit, t), part = apart ? whole : std::min(elements(unit, source), whole);
    const Quantised input = quantised(part, whole, unit.normalized(t), recipe.forward, recipe.weight_gradient, rates);
    casts.forward += input.now;
    casts.backward += input.later;
    casts.forward_launches += input.launches;
    casts.backward_launches += input.turned;
  });
  const double result = elements(unit, unit.op(i).outputs.front());
  const double part = !apart && gradient_is_gathered(unit, i) ? result / unit.graph->degrees.tensor : result;
  const Quantised gradient = quantised(part, result, false, recipe.input_gradient, recipe.weight_gradient, rates);
  casts.backward += gradient.now + gradient.later;
  casts.backward_launches += gradient.launches + gradient.turned;
  casts.forward *= recipe.cast_factor;
  casts.backward *= recipe.cast_factor;
  return casts;
}

// Rows of experts are gathered by the dispatcher, which knows nothing of the products' format.
bool gathers_narrow(const UnitView& unit, int i, const DeviceRates& rates) {
  if (unit.op(i).forward_collective != CollectiveKind::AllGather) return false;
  if (rates.narrow.recipe == nullptr || !rates.narrow.recipe->gathers_inputs) return false;
  bool all = false;
  for (const int gathered : unit.op(i).outputs) {
    if (unit.use->crosses[gathered]) return false;
    for (int j = i + 1; j < unit.size(); ++j) {
      if (!any_operand(unit.op(j), [&](int t) { return t == gathered; })) continue;
      if (!is_narrow(unit, j, rates) || unit.experts_of(j) > 0) return false;
      all = true;
    }
  }
  return all;
}

bool gathers_narrow_gradient(const UnitView& unit, int i, const DeviceRates& rates) {
  if (unit.op(i).backward_collective != CollectiveKind::AllGather) return false;
  if (rates.narrow.recipe == nullptr || !rates.narrow.recipe->gathers_inputs) return false;
  return any_operand(unit.op(i), [&](int t) {
    const int source = unit.root(t);
    if (!unit.inside(source)) return false;
    const int maker = unit.tensor(source).producer - unit.first;
    return is_narrow(unit, maker, rates) && unit.experts_of(maker) == 0;
  });
}

double narrow_weight_copies(const DeviceRates& rates) {
  const Recipe& recipe = *rates.narrow.recipe;
  const bool both = recipe.forward && recipe.input_gradient && rates.narrow.two_copies() && !rates.narrow.single_weight;
  return (both ? 2 : 1) * rates.narrow.weight;
}

double narrow_weight_cast(const DeviceRates& rates, bool in_place) {
  const Recipe& recipe = *rates.narrow.recipe;
  const double copies = narrow_weight_copies(rates), read = rates.element * (recipe.reads_largest ? 2 : 1);
  // The step writes the first copy and gathers it; the second is that one turned.
  if (in_place && recipe.gathers_weights) return copies > rates.narrow.weight ? copies : 0;
  return (read + copies) * recipe.cast_factor;
}

}  // namespace panpipe
