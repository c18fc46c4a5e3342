#include "planner/pfeife/stage_ticks.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "costmodel/plan/memory_model.hpp"
#include "costmodel/plan/pass_rules.hpp"

namespace panpipe::planner {
namespace {

constexpr double kTicksPerSecond = 1e12;
// Slopes of the host's bound are taken numerically; floors stay below it by more than that is wrong.
constexpr double kSlopeSafety = 1 - 1e-7;

}  // namespace

StageTicks::StageTicks(const Scenario& scenario, const LoweringCosts& costs, int pipeline, const std::vector<int>& sites)
    : costs_(costs), jitter_(costs.stage_jitter(pipeline)) {
  sites_.resize(at(*std::max_element(sites.begin(), sites.end())) + 1);
  for (const int site : sites) {
    OfSite& of = sites_[site];
    if (of.table) continue;
    const WorkloadCost& workload = costs.workload(site);
    if (modes_.empty()) choose_modes(scenario, workload);
    of.table.emplace(scenario, costs, site, std::set<Recompute>(modes_.begin(), modes_.end()));
    if (any_ == nullptr) any_ = &*of.table;
    synchronous_ = synchronous_ || of.table->synchronises();
    for (const Recompute mode : modes_)
      for (const ActionKind kind : kPasses) {
        Sums& ticks = of.ticks[at(mode)][at(kind)];
        for (const double device_time : of.table->sums(kind, mode).device)
          ticks.push_back(device_time * jitter_ * kTicksPerSecond);
      }
    make_floors(of, site);
  }
}

void StageTicks::choose_modes(const Scenario& scenario, const WorkloadCost& workload) {
  modes_ = {scenario.recompute};
  const MemoryModel memory(scenario);
  if (!is_open(scenario, "recompute") || !memory.counts_recompute()) return;
  const auto kept = [&](Recompute mode) {
    Bytes sum(0);
    for (const UnitCost& unit : workload.units) sum += memory.kept(unit, mode);
    return sum;
  };
  for (const Recompute mode : {Recompute::Selective, Recompute::Full})
    if (kept(mode) < kept(modes_.back())) modes_.push_back(mode);
}

// The host's bound is convex and homogeneous in (device time, host time): a supporting line at the model's own ratio is a floor.
void StageTicks::make_floors(OfSite& of, int site) {
  for (const ActionKind kind : kPasses) {
    const PassSums& sums = of.table->least_sums(kind, modes_.front());
    const auto bound_of = [&](double seconds, std::size_t units) {
      const HostWork work(static_cast<int>(sums.launches[units]), Duration(sums.host[units]));
      return costs_.host_bound(Duration(seconds), work, site).base();
    };
    const std::size_t all = sums.device.size() - 1;
    const double device = sums.device[all], host = bound_of(0, all);
    double per_second = 1, per_host = 0;
    const auto bound = [&](double seconds) { return bound_of(seconds, all); };
    if (bound(device) != device) {
      host_counts_ = true;
      constexpr double kStep = 1e-4;
      per_second = device > 0 ? (bound(device * (1 + kStep)) - bound(device * (1 - kStep))) / (2 * kStep * device) : 0;
      per_second = std::clamp(per_second, 0.0, 1.0);
      per_host = host > 0 ? (bound(device) - per_second * device) / host * kSlopeSafety : 0;
      per_second *= kSlopeSafety;
    }
    Sums& floor = of.floor[at(kind)];
    floor.resize(sums.device.size());
    for (std::size_t u = 0; u < floor.size(); ++u)
      floor[u] = (per_second * sums.device[u] + (per_host > 0 ? per_host * bound_of(0, u) : 0) + sums.synchronous[u]) * jitter_ *
                 kTicksPerSecond;
  }
}

Sums StageTicks::work(int site) const {
  Sums both = floor(ActionKind::F, site);
  const Sums& backward = floor(ActionKind::B, site);
  for (std::size_t u = 0; u < both.size(); ++u) both[u] += backward[u];
  return both;
}

double StageTicks::ticks(ActionKind kind, int site, int first, int end, bool all_in_weight, Recompute mode) const {
  const std::optional<ActionKind> done = work_of_pass(kind, all_in_weight);
  if (!done) return 0;
  const StageTable& table = *sites_[site].table;
  const double launched =
      host_counts_ ? table.launched(*done, mode, first, end) : table.sum(&PassSums::device, *done, mode, first, end);
  const double synchronous = table.sum(&PassSums::synchronous, *done, mode, first, end);
  const double ticks = rounded(launched * jitter_ * kTicksPerSecond);
  return synchronous == 0 ? ticks : ticks + rounded(synchronous * jitter_ * kTicksPerSecond);
}

const double* StageTicks::plain_ticks(ActionKind kind, int site, bool all_in_weight, Recompute mode) const {
  const std::optional<ActionKind> done = work_of_pass(kind, all_in_weight);
  if (host_counts_ || synchronous_ || any_->recomputes_first_blocks() || !done) return nullptr;
  return sites_[site].ticks[at(mode)][at(*done)].data();
}

}  // namespace panpipe::planner
