#include "costmodel/prediction/blame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/impaired.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe {
namespace {

Blame of_device(const Plan& plan, int device) {
  const auto found = std::find(plan.devices.begin(), plan.devices.end(), device);
  if (found == plan.devices.end()) return {fmt::format("device {} (not in use)", device), device};
  const int rank = static_cast<int>(found - plan.devices.begin()) / plan.devices_of_rank();
  return {fmt::format("device {} (rank {})", device, rank), device, rank};
}

}  // namespace

std::vector<Blame> blame_of(const Scenario& scenario, const Plan& plan) {
  const Fabric& fabric = fabric_of(scenario.cluster);
  if (fabric.sound == nullptr) return {};
  const auto step_of = [&](const Scenario& of) { return Duration(predict(of, plan).metrics.step_time_s); };
  const Duration whole = step_of(scenario);
  std::vector<Blame> all;
  const auto add = [&](Blame blame, double share, Cluster cluster) {
    Scenario without = scenario;
    without.cluster = std::move(cluster);
    blame.share = share;
    blame.step = step_of(without);
    blame.lost = whole - blame.step;
    all.push_back(std::move(blame));
  };
  const auto others = [](auto all_of_them, std::size_t i) {
    all_of_them.erase(all_of_them.begin() + static_cast<std::ptrdiff_t>(i));
    return all_of_them;
  };
  for (std::size_t i = 0; i < fabric.slow.size(); ++i)
    add(of_device(plan, fabric.slow[i].device), std::round(1e12 / fabric.slow[i].slowdown) / 1e12,  // 0.9, not its neighbour
        impaired(*fabric.sound, others(fabric.slow, i), fabric.degraded));
  for (std::size_t i = 0; i < fabric.degraded.size(); ++i)
    add({fabric.degraded[i].link}, fabric.degraded[i].share, impaired(*fabric.sound, fabric.slow, others(fabric.degraded, i)));
  return all;
}

std::string to_text(const Blame& blame) {
  return fmt::format("{} at {:.3g} % of its rate: without it the step would take {}, {:.2g} % less", blame.what,
                     100 * blame.share, to_text(blame.step), 100 * blame.of_step());
}

}  // namespace panpipe
