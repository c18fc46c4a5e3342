#include "costmodel/plan/pass_means.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "costmodel/cluster/host_path.hpp"
#include "costmodel/plan/cut_links.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "schedule/memory/memory_actions.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {
namespace {

Bytes mean_crossing(const WorkloadCost& workload) {
  const CutLinks links(workload);
  const auto units = static_cast<int>(workload.units.size());
  double crossing = 0;
  for (int cut = 1; cut < units; ++cut) crossing += static_cast<double>(links.bytes_across(cut));
  return Bytes(static_cast<std::int64_t>(crossing / std::max(1, units - 1)));
}

// Copies are planned for the moment when all devices that share a link copy; staggered, one rank of each run of ranks. A device
// without a way to its host: the lowering refuses its copies by name.
std::vector<int> copying_at_once(const Cluster& cluster, const PlanRequest& request) {
  std::vector<int> devices(cluster.size());
  std::iota(devices.begin(), devices.end(), 0);
  if (request.placement) devices = *request.placement;
  const int stagger = offload_stagger(request.schedule.options);
  if (stagger == 1) return devices;
  const std::size_t of_rank = static_cast<std::size_t>(request.degrees.devices_of_rank());
  const std::size_t run = of_rank * static_cast<std::size_t>(stagger);
  std::vector<int> first;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (i % run < of_rank) first.push_back(devices[i]);
  return first;
}

struct UnitTimes {
  Duration F{0}, I{0}, W{0};
};

// For units [first, end), divided into this many stages, with recompute added to I.
UnitTimes times_of(Recompute recompute, const LoweringCosts& costs, int site, int first, int end, int stages = 1) {
  UnitTimes sum;
  const auto add = [&](Duration& to, const PassCost& pass) { to += time_alone(costs, pass, site); };
  const std::vector<UnitCost>& units = costs.units(site).units;
  const int again = recompute_end(costs.units(site), first, end, costs.units(site).recompute_first * stages);
  for (int u = first; u < end; ++u) {
    const UnitCost& unit = units[u];
    add(sum.F, unit.forward);
    add(sum.I, unit.input_gradient);
    add(sum.W, unit.weight_gradient);
    sum.W += accumulation(costs, unit, 1, site).total;
    const Recompute mode = recompute_of_unit(u, again, recompute);
    if (mode == Recompute::Full) add(sum.I, unit.recompute_full);
    if (mode == Recompute::Selective) add(sum.I, unit.recompute_selective);
  }
  return sum;
}

}  // namespace

PassCosts mean_pass_costs(const Cluster& cluster, const PlanRequest& request, const LoweringCosts& costs, int site, int stages) {
  const WorkloadCost& workload = costs.units(site);
  const int apart = cuts_vocabulary(request.schedule.options) ? 1 : 0;  // units at either end that no stage holds
  const UnitTimes sum = times_of(request.recompute, costs, site, apart, static_cast<int>(workload.units.size()) - apart, stages);
  Bytes saved(0), waiting(0);
  for (const UnitCost& unit : workload.units) {
    saved += unit.saved;
    waiting += unit.kept_for_weight;
  }
  if (sum.F + sum.I + sum.W <= Duration(0)) return {};
  PassCosts means;
  means.F = sum.F.base() / stages;
  means.I = sum.I.base() / stages;
  means.W = sum.W.base() / stages;
  if (saved > Bytes(0)) means.waiting = static_cast<double>(waiting.base()) / static_cast<double>(saved.base());
  const std::vector<int> devices = copying_at_once(cluster, request);
  const auto copy_time = [&](bool away) {
    const Bandwidth rate = shared_host_copy_bandwidth(cluster, devices, devices.front(), away);
    return rate > Bandwidth(0) ? (saved / rate).base() / stages : 0;
  };
  means.offload = copy_time(true);
  means.reload = copy_time(false);
  const int next_rank = request.degrees.devices_of_rank();  // first device of rank 1
  if (request.degrees.pipeline > 1 && next_rank < cluster.size()) {
    const auto device = [&](int position) { return request.placement ? (*request.placement)[position] : position; };
    means.comm = costs.transfer(device(0), device(next_rank), mean_crossing(workload)).time.base();
  }
  return means;
}

void add_stage_costs(const PlanRequest& request, const LoweringCosts& costs, int site, const std::vector<int>& cuts,
                     PassCosts& means) {
  const int apart = cuts_vocabulary(request.schedule.options) ? 1 : 0;
  const int units = static_cast<int>(costs.units(site).units.size()) - apart;
  for (std::size_t k = 0; k <= cuts.size(); ++k) {
    const UnitTimes sum =
        times_of(request.recompute, costs, site, k == 0 ? apart : cuts[k - 1], k < cuts.size() ? cuts[k] : units);
    means.stages.push_back({sum.F.base(), sum.I.base(), sum.W.base()});
  }
}

}  // namespace panpipe
