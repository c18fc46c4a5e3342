#include "planner/pfeife/search_space.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace panpipe::planner {
namespace {

Plan fixed_parts(const Scenario& scenario) {
  Plan plan{scenario.degrees, {}, {}, {}};
  if (scenario.placement) {
    plan.devices = *scenario.placement;
  } else {
    plan.devices.resize(plan.device_count());
    std::iota(plan.devices.begin(), plan.devices.end(), 0);
  }
  return plan;
}

// The sites of each rank's first copy.
std::vector<int> sites_of(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  std::vector<int> sites;
  for (int rank = 0; rank < plan.pipeline; ++rank)
    sites.push_back(costs.site_of(scenario.cluster, {plan, plan.devices, rank, 0}, 0));
  return sites;
}

}  // namespace

// The model's costs with other edges, so that the caller chooses which stages communicate.
class EdgeCosts final : public ModelCosts {
 public:
  EdgeCosts(const CostModel& model, const Plan& plan) : ModelCosts(model, plan), model_(model) {}
  void set_edges(std::vector<UnitEdge> edges) {
    edges_ = std::move(edges);
    for (auto& [site, workload] : workloads_) workload.edges = edges_;
  }
  const WorkloadCost& workload(int site) const override {
    const auto [known, is_new] = workloads_.try_emplace(site);
    if (is_new) (known->second = model_.workload(site)).edges = edges_;
    return known->second;
  }
  const WorkloadCost& units(int site) const override { return workload(site); }

 private:
  const CostModel& model_;
  std::vector<UnitEdge> edges_;
  mutable std::map<int, WorkloadCost> workloads_;  // by site
};

std::vector<StageLink> united(std::vector<StageLink> a, const std::vector<StageLink>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::stable_sort(a.begin(), a.end(),
                   [](const StageLink& x, const StageLink& y) { return std::pair(x.from, x.to) < std::pair(y.from, y.to); });
  std::vector<StageLink> result;
  for (const StageLink& link : a) {
    if (!result.empty() && result.back().from == link.from && result.back().to == link.to)
      result.back().gradient = result.back().gradient || link.gradient;
    else
      result.push_back(link);
  }
  return result;
}

const std::vector<StageLink>& SearchSpace::known_links(int stages) const {
  static const std::vector<StageLink> kNone;
  const auto known = known_links_.find(stages);
  return known != known_links_.end() ? known->second : kNone;
}

void SearchSpace::add_links(int stages, const std::vector<StageLink>& links) {
  std::vector<StageLink>& known = known_links_[stages];
  known = united(links, known);
}

SearchSpace::SearchSpace(const Experiment& experiment)
    : scenario_(experiment.scenario),
      base_(fixed_parts(scenario_)),
      costs_(experiment.model, base_),
      sites_(sites_of(scenario_, base_, costs_)),
      stage_costs_(scenario_, costs_, base_.pipeline, sites_),
      crossings_(costs_.workload(sites_.front())),
      model_(experiment.model) {
  const std::int64_t elements = stage_costs_.elements().back();
  has_optimizer_ = stage_costs_.given_optimizer().back() > 0 || (elements > 0 && optimizer(elements, 0, 0, sites_.front()) > 0);
}

TaskGraph SearchSpace::lowered_with(const Plan& plan, const std::vector<StageLink>& links, const Cuts& cuts) const {
  const auto first = [&](int position) { return position == 0 ? 0 : cuts[static_cast<std::size_t>(position) - 1]; };
  std::vector<UnitEdge> edges;
  for (std::size_t i = 0; i < links.size(); ++i)
    edges.push_back({first(links[i].from), first(links[i].to), static_cast<int>(i), Bytes(1), links[i].gradient});
  std::shared_ptr<EdgeCosts> costs;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      costs = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!costs) costs = std::make_shared<EdgeCosts>(model_, base_);
  costs->set_edges(std::move(edges));
  // Where buckets of gradients begin and end depends on the cut: while cuts are compared a stage's are one bucket, which is never
  // faster. The estimate of the found plan uses its real buckets.
  TaskGraph graph = lower_replica(scenario_, plan, *costs, 0, true);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(costs));
  return graph;
}

void SearchSpace::set_cuts(Plan& plan, const Cuts& cuts, const Modes& modes) const {
  const std::vector<int>& chain = plan.schedule.chains.front();
  for (std::size_t k = 0; k < chain.size(); ++k) {
    StagePlan& stage = plan.stages[chain[k]];
    stage.first_unit = k == 0 ? 0 : cuts[k - 1];
    stage.end_unit = k < cuts.size() ? cuts[k] : units();
    stage.recompute = modes.empty() ? stage_costs_.modes().front() : modes[k];
  }
}

Plan SearchSpace::plan(const Schedule& schedule, const Cuts& cuts, const Modes& modes) const {
  Plan plan = base_;
  plan.schedule = schedule;
  plan.stages.resize(schedule.stages);
  set_cuts(plan, cuts, modes);
  return plan;
}

// As the lowering rounds it: latency and bytes apart.
double SearchSpace::transfer(int from_rank, int to_rank, std::int64_t bytes) const {
  double slowest = 0;
  for (int t = 0; t < base_.tensor; ++t)
    slowest = std::max(
        slowest, to_ticks(costs_.transfer(base_.device(from_rank, 0, t), base_.device(to_rank, 0, t), Bytes(bytes)).time).base());
  return slowest;
}

const Sums& SearchSpace::hops(int from_rank, int to_rank, bool gradient) const {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = hops_.try_emplace({from_rank, to_rank, gradient});
  if (is_new) {
    entry->second.assign(static_cast<std::size_t>(units()) + 1, 0);
    std::unordered_map<std::int64_t, double> known;  // few sizes, many cuts
    for (int cut = 1; cut < units(); ++cut) {
      const StageLink& link = crossings_.next_unit(cut);
      if (link.from == 0 || (gradient && !link.gradient)) continue;
      const std::int64_t bytes = gradient ? link.gradient_bytes : link.bytes;
      const auto [time, first] = known.try_emplace(bytes, 0);
      if (first) time->second = transfer(from_rank, to_rank, bytes);
      entry->second[cut] = time->second;
    }
  }
  return entry->second;
}

double SearchSpace::optimizer(std::int64_t elements, std::int64_t tensors, double given_seconds, int type) const {
  return to_ticks(costs_.optimizer(elements, tensors, type).total + Duration(given_seconds)).base();
}

// The slope where the step is affine in the elements, else nothing. Launches for tensors come on top.
double SearchSpace::optimizer_per_element(int type) const {
  const std::int64_t all = stage_costs_.elements().back();
  if (all < 4) return 0;
  const auto at = [&](std::int64_t elements) { return costs_.optimizer(elements, 0, type).total.base() * 1e12; };
  const double slope = (at(all) - at(all / 2)) / static_cast<double>(all - all / 2);
  const double quarter = at(all / 4) + slope * static_cast<double>(all / 2 - all / 4);
  return std::abs(quarter - at(all / 2)) <= 1e-9 * at(all) ? slope : 0;
}

}  // namespace panpipe::planner
