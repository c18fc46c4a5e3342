#include <algorithm>
#include <map>

#include "costmodel/cost/workload_cost.hpp"

namespace panpipe {
namespace {

PassCost given(Duration time) {
  PassCost pass;
  if (time > Duration(0)) pass.pieces.emplace_back().time = time;
  pass.breakdown.compute = pass.breakdown.total = time;
  pass.breakdown.source = CostSource::Given;
  return pass;
}

}  // namespace

WorkloadCost cost_of_layers(const LayerTable& table) {
  WorkloadCost cost;
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    const MeasuredLayer& layer = table.layers[i];
    UnitCost& unit = cost.units.emplace_back();
    unit.name = layer.name;
    unit.block = layer.name;
    unit.forward = given(layer.forward);
    unit.input_gradient = given(layer.input_gradient);
    unit.weight_gradient = given(layer.weight_gradient);
    unit.recompute_full = unit.forward;  // what part is the attention core is not known: selective recomputes nothing
    unit.recompute_selective.breakdown.source = CostSource::Given;
    unit.saved = unit.saved_selective = layer.saved;
    // The part that the weight gradient needs is unknown, so all of it counts.
    unit.kept_for_weight = layer.split_backward ? std::max(layer.saved, Bytes(0)) : Bytes(0);
    unit.temporary = layer.temporary;
    unit.parameters.push_back({-1, 0, layer.parameters});
    unit.graph_inputs = layer.inputs;
    unit.optimizer = layer.optimizer;
    cost.split_backward &= layer.split_backward;
  }
  // Edges of one layer with one tensor name are one tensor.
  std::map<std::pair<int, std::string>, int> tensors;
  std::vector<std::pair<int, int>> counted;  // (consumer, tensor) whose bytes are in saved_full
  for (const LayerEdge& edge : table.edges) {
    const int next = static_cast<int>(tensors.size());
    const int tensor = tensors.try_emplace({edge.from, edge.tensor}, next).first->second;
    cost.edges.push_back({edge.from, edge.to, tensor, edge.bytes, true});
    if (std::find(counted.begin(), counted.end(), std::pair(edge.to, tensor)) != counted.end()) continue;
    counted.emplace_back(edge.to, tensor);
    cost.units[edge.to].saved_full += edge.bytes;
  }
  return cost;
}

}  // namespace panpipe
