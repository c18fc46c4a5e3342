#include "costmodel/cost/narrow_products.hpp"

#include "costmodel/cost/fusion.hpp"

namespace panpipe {
namespace {

// A tensor and its transpose, which the other products of a layer read: Hopper's and Ada's products in 8 bits take rows alone,
// and blocks of 32 are scaled along the sum.
double both_ways(const DeviceRates& rates) { return 2 * rates.operand_8bit; }

// Bytes moved to make a tensor's 8-bit copies. `part` elements are cast here, `whole` are read by the products: more if ranks
// gather their parts, which are then transposed separately.
struct Quantised {
  double now = 0, later = 0;  // bytes, in the pass that makes the tensor and in the backward that turns it
  int launches = 0, turned = 0;
};

Quantised quantised(double part, double whole, bool from_norm, const DeviceRates& rates) {
  const bool fused = from_norm && !rates.measured_8bit && rates.elementwise != Elementwise::Eager;
  const bool at_once = rates.scale_8bit > 0 || (part >= whole && !fused);
  Quantised result;
  // The normalization writes 8 bits instead of its own format, otherwise a kernel reads that.
  result.now = part * ((fused ? -rates.element : rates.element) + (at_once ? both_ways(rates) : rates.operand_8bit));
  if (rates.measured_8bit) result.now += part * rates.element;
  result.launches = (fused ? 0 : 1) + (rates.measured_8bit ? 1 : 0);
  if (at_once) return result;
  result.later = whole * both_ways(rates);
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
  return rates.gemm_8bit > ComputeRate(0) && multiplies_narrow(*unit.graph, *unit.use, unit.first + i);
}

DeviceRates narrow_rates(const DeviceRates& rates) {
  DeviceRates result = rates;
  result.gemm = rates.gemm_8bit;
  result.operand = rates.operand_8bit;
  return result;
}

double narrow_width(const DeviceRates& rates) { return rates.operand_8bit / rates.element; }

Casts casts_of(const UnitView& unit, int i, const DeviceRates& rates) {
  Casts casts;
  const bool apart = unit.experts_of(i) > 0;  // rows of experts are gathered before they are cast
  for_each_operand(unit.op(i), [&](int t) {
    if (!unit.activation(t) || unit.tensor(t).dtype == DType::Int64) return;
    const int source = unit.root(t);
    if (read_before(unit, i, source, rates)) return;
    const double whole = elements(unit, t), part = apart ? whole : std::min(elements(unit, source), whole);
    const Quantised input = quantised(part, whole, unit.normalized(t), rates);
    casts.forward += input.now;
    casts.backward += input.later;
    casts.forward_launches += input.launches;
    casts.backward_launches += input.turned;
  });
  const double result = elements(unit, unit.op(i).outputs.front());
  const double part = !apart && gradient_is_gathered(unit, i) ? result / unit.graph->degrees.tensor : result;
  const Quantised gradient = quantised(part, result, false, rates);
  casts.backward += gradient.now + gradient.later;
  casts.backward_launches += gradient.launches + gradient.turned;
  return casts;
}

// Rows of experts are gathered by the dispatcher, which knows nothing of the products' format.
bool gathers_narrow(const UnitView& unit, int i, const DeviceRates& rates) {
  if (unit.op(i).forward_collective != CollectiveKind::AllGather) return false;
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
  return any_operand(unit.op(i), [&](int t) {
    const int source = unit.root(t);
    if (!unit.inside(source)) return false;
    const int maker = unit.tensor(source).producer - unit.first;
    return is_narrow(unit, maker, rates) && unit.experts_of(maker) == 0;
  });
}

double narrow_weight_cast(const DeviceRates& rates) { return rates.element * (rates.measured_8bit ? 2 : 1) + both_ways(rates); }

}  // namespace panpipe
