#include "tests/costmodel/lowering/tables.hpp"

#include <algorithm>

namespace panpipe::test {

TransferCost TableCosts::transfer(int, int, Bytes bytes) const {
  TransferCost cost;
  cost.path = PathClass::Given;
  cost.bytes = bytes;
  cost.latency = cost.time = latency;
  return cost;
}

CollectiveCost TableCosts::collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const {
  CollectiveCost cost;
  cost.kind = kind;
  cost.members = static_cast<int>(devices.size());
  cost.bytes = bytes;
  if (gather_per_byte > 0 || scatter_per_byte > 0 || sum_per_byte > 0) cost.wire_bytes = bytes;
  const double each = kind == CollectiveKind::AllGather       ? gather_per_byte
                      : kind == CollectiveKind::ReduceScatter ? scatter_per_byte
                                                              : sum_per_byte;
  cost.latency = collective_latency;
  cost.time = collective_time + collective_latency + Duration(each * static_cast<double>(bytes.base()));
  return cost;
}

Breakdown TableCosts::optimizer(std::int64_t elements, std::int64_t tensors, int) const {
  Breakdown cost;
  cost.total =
      Duration(optimizer_per_element * static_cast<double>(elements) + optimizer_per_tensor * static_cast<double>(tensors));
  return cost;
}

Breakdown TableCosts::accumulation(std::int64_t others, std::int64_t experts, int, int) const {
  Breakdown cost;
  cost.memory = cost.total = Duration(accumulation_per_element * static_cast<double>(others + experts));
  return cost;
}

Duration TableCosts::host_bound(Duration device, const HostWork& work, int) const {
  return std::max(device, Duration(host_floor * work.launches) + work.other);
}

PassCost pass_of(double seconds) {
  PassCost pass;
  pass.pieces.emplace_back().time = Duration(seconds);
  pass.breakdown.compute = pass.breakdown.total = Duration(seconds);
  pass.breakdown.work = Flops(seconds * 1e12);
  return pass;
}

void add_collective(PassCost& pass, Duration time, bool hidden) {
  Piece& piece = pass.pieces.emplace_back();
  piece.collective = true;
  piece.hidden_behind_next = hidden;
  piece.time = time;
  piece.collective_id = 0;
}

UnitCost unit_of(int index, double forward, double input, double weight, std::int64_t saved) {
  UnitCost unit;
  unit.name = "u" + std::to_string(index);
  unit.block = unit.name;
  unit.forward = pass_of(forward);
  unit.input_gradient = pass_of(input);
  unit.weight_gradient = pass_of(weight);
  unit.saved = unit.saved_selective = Bytes(saved);
  unit.parameters.push_back({index, 100, Bytes(0)});
  return unit;
}

TableCosts chain_of(int count, double forward, double input, double weight, std::int64_t saved, std::int64_t bytes) {
  TableCosts costs;
  for (int u = 0; u < count; ++u) {
    costs.table.units.push_back(unit_of(u, forward, input, weight, saved));
    if (u > 0) costs.table.edges.push_back({u - 1, u, u - 1, Bytes(bytes), true});
  }
  costs.table.loss_unit = count - 1;
  return costs;
}

TableCosts attention_units(int count) {
  TableCosts costs = chain_of(count, 10e-3, 20e-3, 4e-3, 1600, 64);
  for (UnitCost& unit : costs.table.units) {
    unit.attention_forward = millis(4);
    unit.attention_backward = millis(8);
    unit.causal_attention = true;
  }
  return costs;
}

TableCosts flows_of(int count, double second_per_gathered_byte, double second_per_byte) {
  TableCosts costs = chain_of(count, 10e-3, 12e-3, 7e-3);
  costs.is_measured = false;
  costs.collective_latency = micros(200);
  costs.gather_per_byte = second_per_gathered_byte;
  costs.scatter_per_byte = costs.sum_per_byte = second_per_byte;
  return costs;
}

Scenario scenario_of(int pipeline, int microbatches, const std::string& schedule, int stages_per_rank, int data) {
  Scenario scenario;
  scenario.name = "test";
  scenario.cluster.name = "row";
  DeviceType type;
  type.name = "given";
  type.kind = "given";
  type.memory = Bytes(1'000'000'000);
  scenario.cluster.types.push_back(type);
  for (int d = 0; d < pipeline * data; ++d) scenario.cluster.devices.push_back({0, 0, d});
  scenario.cluster.node.push_back({0, pipeline * data, Bandwidth(0)});
  scenario.cluster.given = true;
  scenario.degrees.microbatches = microbatches;
  scenario.degrees.pipeline = pipeline;
  scenario.degrees.data = data;
  scenario.degrees.virtual_stages = stages_per_rank;
  scenario.schedule.name = schedule;
  scenario.optimizer.name = "none";
  return scenario;
}

}  // namespace panpipe::test
