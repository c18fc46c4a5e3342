#include "costmodel/plan/pass_means.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "costmodel/cluster/host_path.hpp"

namespace panpipe {
namespace {

// A tensor crosses every cut between its producer and its last consumer, once.
Bytes mean_crossing(const WorkloadCost& workload) {
  struct Tensor {
    int from, last;
    Bytes bytes;
  };
  std::map<int, Tensor> tensors;
  double crossing = 0;
  const auto cross = [&](int from, int to, Bytes bytes) {
    crossing += static_cast<double>(bytes.base()) * std::max(0, to - from);
  };
  for (const EdgeCost& edge : workload.edges) {
    if (edge.tensor < 0) {
      cross(edge.from, edge.to, edge.bytes);
      continue;
    }
    Tensor& tensor = tensors.try_emplace(edge.tensor, Tensor{edge.from, edge.to, edge.bytes}).first->second;
    tensor.last = std::max(tensor.last, edge.to);
  }
  for (const auto& [id, tensor] : tensors) cross(tensor.from, tensor.last, tensor.bytes);
  const double cuts = std::max<double>(1, static_cast<double>(workload.units.size()) - 1);
  return Bytes(static_cast<std::int64_t>(crossing / cuts));
}

}  // namespace

PassCosts mean_pass_costs(const Scenario& scenario, const LoweringCosts& costs, int device_type, int stages) {
  const WorkloadCost& workload = costs.units(device_type);
  Duration forward(0), input_gradient(0), weight_gradient(0);
  Bytes saved(0);
  const auto add = [&](Duration& sum, const PassCost& pass) {
    sum += costs.host_bound(pass.breakdown.total, pass.launches, device_type);
  };
  for (const UnitCost& unit : workload.units) {
    add(forward, unit.forward);
    saved += unit.saved;
    add(input_gradient, unit.input_gradient);
    add(weight_gradient, unit.weight_gradient);
    if (scenario.recompute == Recompute::Full) add(input_gradient, unit.recompute_full);
    if (scenario.recompute == Recompute::Selective) add(input_gradient, unit.recompute_selective);
  }
  if (forward + input_gradient + weight_gradient <= Duration(0)) return {};
  PassCosts means;
  means.F = forward.base() / stages;
  means.I = input_gradient.base() / stages;
  means.W = weight_gradient.base() / stages;
  // Copies are planned for the moment when all devices that share a link copy. A device without a way to its host: the lowering
  // refuses its copies by name.
  std::vector<int> devices(static_cast<std::size_t>(scenario.cluster.size()));
  std::iota(devices.begin(), devices.end(), 0);
  if (scenario.placement) devices = *scenario.placement;
  const auto copy_time = [&](bool away) {
    const Bandwidth rate = shared_host_copy_bandwidth(scenario.cluster, devices, devices.front(), away);
    return rate > Bandwidth(0) ? (saved / rate).base() / stages : 0;
  };
  means.offload = copy_time(true);
  means.reload = copy_time(false);
  const int next_rank = scenario.parallel.tensor * scenario.parallel.data;  // first device of rank 1
  if (scenario.parallel.pipeline > 1 && next_rank < scenario.cluster.size()) {
    const auto device = [&](int position) {
      return scenario.placement ? (*scenario.placement)[static_cast<std::size_t>(position)] : position;
    };
    means.comm = costs.transfer(device(0), device(next_rank), mean_crossing(workload)).time.base();
  }
  return means;
}

}  // namespace panpipe
