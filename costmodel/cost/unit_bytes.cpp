// Bytes of units: activations that they keep, and their parameters.
#include <algorithm>

#include "costmodel/cost/graph_cost.hpp"
#include "costmodel/cost/narrow_products.hpp"
#include "costmodel/cost/whole_bytes.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {

// Tensors made elsewhere are paid for by the first unit that keeps them.
void GraphCost::add_saved(std::size_t u, UnitCost& unit, const ProfiledUnit* measured) {
  const UnitTemplate& shape = templates_[shape_of_[u]];
  const auto keep = [&](int external, Bytes bytes) {
    const auto t = static_cast<std::size_t>(externals_[u][external]);
    if (!kept_[t]) unit.saved += bytes;
    kept_[t] = true;
  };
  unit.saved = measured ? measured->saved : shape.saved_inside;
  if (measured) {
    for (const int external : measured->keeps)
      if (external < static_cast<int>(externals_[u].size())) keep(external, graph_.tensors[externals_[u][external]].bytes());
  } else {
    for (const SavedExternal& s : shape.saved_external) keep(s.external, s.bytes);
  }
  const double released = framework().released_by_input_gradient;
  if (released >= 0 && !measured)
    unit.kept_for_weight =
        Bytes(static_cast<std::int64_t>(static_cast<double>(unit.saved.base()) * (1 - std::min(released, 1.0))));
  unit.attention_core = shape.attention_core;
  unit.saved_selective = unit.saved - unit.attention_core;
  if (graph_.units[u].block.empty()) {  // never recomputed
    unit.saved_full = unit.saved_selective = unit.saved;
    return;
  }
  const double residual = rates_.residual / rates_.element;  // what goes from block to block is in fp32 under autocast
  for (int t : externals_[u]) {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.role != TensorRole::Activation || input_kept_[t]) continue;
    const int maker = graph_.operators[tensor.producer].unit;
    if (graph_.units[maker].block == graph_.units[u].block) continue;
    input_kept_[t] = true;
    unit.saved_full += whole_bytes(static_cast<double>(tensor.bytes().base()) * residual);
  }
}

void GraphCost::add_parameters(std::size_t u, UnitCost& unit) {
  for (int t : externals_[u]) {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.role != TensorRole::Parameter) continue;
    const ParameterUse& use = unit.parameters.emplace_back(parameter_use(u, t));
    unit.optimizer += use.matrices.step * static_cast<double>(use.matrices.count);
  }
}

// Bytes of a frozen weight's element; QLoRA packs those of a block's products.
double GraphCost::frozen_width(std::size_t u, int t) const {
  const double format = static_cast<double>(size_of(graph_.tensors[t].dtype).base());
  return rates_.unpacking > 0 && product_with(u, t) >= 0 ? kNf4Bytes : format;
}

bool GraphCost::is_read_narrow(std::size_t u, int t) const {
  const int product = product_with(u, t);
  return product >= 0 && multiplies_narrow(graph_, use_, product, rates_.narrow);
}

// The unit's operator that multiplies with weight t; -1: none.
int GraphCost::product_with(std::size_t u, int t) const {
  const auto [first, end] = use_.unit_range[u];
  for (int i = first; i < end; ++i)
    if (use_.product_weight[i] == t) return i;
  return -1;
}

ParameterUse GraphCost::parameter_use(std::size_t u, int t) const {
  const Tensor& tensor = graph_.tensors[t];
  ParameterUse use;
  use.tensor = tensor.tied_to >= 0 ? tensor.tied_to : t;
  use.experts = tensor.experts;
  if (tensor.requires_gradient)
    use.elements = tensor.elements();
  else
    use.frozen = whole_bytes(static_cast<double>(tensor.elements()) * frozen_width(u, t));
  if (!matrices_.empty()) use.matrices = matrix_use(model_.scenario(), matrices_[t], rates_, updated_bytes(model_.scenario()));
  if (!is_read_narrow(u, t)) return use;
  // Kept so from the first microbatch on, in both directions in which products read them; or in the place of 2 bytes.
  const double two_bytes = static_cast<double>(tensor.bytes().base()),
               copies = narrow_weight_copies(rates_) / rates_.element * two_bytes;
  const bool packed = use.frozen > Bytes(0) && static_cast<double>(use.frozen.base()) < two_bytes;  // kept in addition
  const bool instead = framework().fp8_parameters && !packed;
  use.copies = whole_bytes(instead ? copies - two_bytes : copies);
  if (instead && rates_.narrow.recipe->gathers_weights)
    use.narrower = whole_bytes(two_bytes * (1 - rates_.narrow.weight / rates_.element));
  return use;
}

}  // namespace panpipe
