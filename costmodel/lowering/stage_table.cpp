#include "costmodel/lowering/stage_table.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/index.hpp"
#include "costmodel/lowering/pass_draft.hpp"
#include "costmodel/plan/stage_activations.hpp"

namespace panpipe {
namespace {

double between(const std::vector<double>& sums, int first, int end) { return sums[end] - sums[first]; }

bool cost_alike(const UnitCost& a, const UnitCost& b) {
  if (a.structure.empty() || a.structure != b.structure || a.block.empty() != b.block.empty() || a.streams != b.streams)
    return false;
  const auto same = [](const PassCost& x, const PassCost& y) {
    return x.host == y.host && x.synchronises == y.synchronises && x.breakdown.total == y.breakdown.total;
  };
  const auto bytes = [](const UnitCost& u) {
    return std::array{u.saved, u.saved_selective, u.saved_full, u.kept_for_weight, u.temporary, u.streamed_gradients};
  };
  const auto elements = [](const UnitCost& u) {
    std::int64_t sum = 0;
    for (const ParameterUse& use : u.parameters) sum += use.elements + use.frozen.base() + use.copies.base();
    return sum;
  };
  return bytes(a) == bytes(b) && elements(a) == elements(b) && same(a.forward, b.forward) &&
         same(a.input_gradient, b.input_gradient) && same(a.weight_gradient, b.weight_gradient) &&
         a.backward.has_value() == b.backward.has_value() && (!a.backward || same(*a.backward, *b.backward)) &&
         same(a.recompute_full, b.recompute_full) && same(a.recompute_selective, b.recompute_selective);
}

bool has_collective(const PassDraft& draft) {
  return std::any_of(draft.pieces.begin(), draft.pieces.end(), [](const UnitPiece& piece) { return piece.collective; });
}

double compute_of_draft(const PassDraft& draft) {
  double sum = 0;
  for (const UnitPiece& piece : draft.pieces)
    if (!piece.collective) sum += piece.time;
  return sum;
}

// Among units with equal costs only the first one's entries are filled: copies them to the others, and sums up.
void add_up(std::vector<double>& part, const std::vector<int>& like) {
  for (std::size_t u = like.size(); u > 0; --u) part[u] = part[static_cast<std::size_t>(like[u - 1]) + 1];
  for (std::size_t u = 1; u < part.size(); ++u) part[u] += part[u - 1];
}

}  // namespace

StageTable::StageTable(const Scenario& scenario, const LoweringCosts& costs, int site, const std::set<Recompute>& modes)
    : costs_(costs), site_(site) {
  const WorkloadCost& workload = costs.workload(site);
  units_ = static_cast<int>(workload.units.size());
  recompute_first_ = workload.recompute_first;
  std::set<Recompute> drafted = modes;
  if (recompute_first_ > 0) drafted.insert(Recompute::None);  // behind a stage's first blocks
  find_alike(workload);
  add_parameters(workload);
  draft_units(scenario, workload, drafted);
  each_sums(drafted, [&](PassSums& sums) {
    for (auto* part : {&sums.device, &sums.synchronous, &sums.compute, &sums.launches, &sums.host}) add_up(*part, like_);
    synchronises_ = synchronises_ || sums.synchronous.back() > 0;
  });
}

template <class Visit>
void StageTable::each_sums(const std::set<Recompute>& modes, Visit visit) {
  visit(forward_);
  visit(weight_);
  for (const Recompute mode : modes)
    for (auto* of_modes : {&input_, &whole_}) visit((*of_modes)[at(mode)]);
}

// Each unit as a stage by itself, on one rank.
void StageTable::draft_units(const Scenario& scenario, const WorkloadCost& workload, const std::set<Recompute>& modes) {
  const Plan plan;
  Lowering lowering{scenario, plan, costs_};
  lowering.flow_of_collective[site_] = 0;
  add_collective_flows(lowering, workload.collectives);
  each_sums(modes, [&](PassSums& sums) {
    for (auto* part : {&sums.device, &sums.synchronous, &sums.compute, &sums.launches, &sums.host})
      part->assign(static_cast<std::size_t>(units_) + 1, 0.0);
  });
  StageUnits info;
  info.site = site_;
  info.cost = &workload;
  const auto put = [&](PassSums& sums, const PassDraft& draft) {
    const auto entry = static_cast<std::size_t>(info.end_unit);
    const DeviceTime time = device_time(lowering, draft);
    sums.device[entry] = time.launched;
    sums.synchronous[entry] = time.synchronous;
    sums.compute[entry] = compute_of_draft(draft);
    sums.launches[entry] = draft.host.launches;
    sums.host[entry] = draft.host.other.base();
    has_collectives_ = has_collectives_ || has_collective(draft);
  };
  for (int u = 0; u < units_; ++u) {
    if (like(u) != u) continue;
    info.first_unit = u;
    info.end_unit = u + 1;
    put(forward_, draft_pass(lowering, info, ActionKind::F, 0));
    put(weight_, draft_pass(lowering, info, ActionKind::W, 0));
    for (const Recompute mode : modes) {
      info.recompute = mode;
      put(input_[at(mode)], draft_pass(lowering, info, ActionKind::I, 0));
      put(whole_[at(mode)], draft_pass(lowering, info, ActionKind::B, 0));
    }
  }
}

void StageTable::find_alike(const WorkloadCost& workload) {
  std::vector<int> firsts;
  for (int u = 0; u < units_; ++u) {
    const UnitCost& unit = workload.units[u];
    const auto same = [&](int other) { return cost_alike(workload.units[other], unit); };
    const auto found = unit.structure.empty() ? firsts.end() : std::find_if(firsts.begin(), firsts.end(), same);
    like_.push_back(found == firsts.end() ? u : *found);
    if (found == firsts.end()) firsts.push_back(u);
  }
  distinct_ = static_cast<int>(firsts.size());
}

void StageTable::add_parameters(const WorkloadCost& workload) {
  uses_.emplace_back();
  given_optimizer_.push_back(0);
  std::map<int, TiedParameter> parameters;
  for (int u = 0; u < units_; ++u) {
    const UnitCost& unit = workload.units[u];
    given_optimizer_.push_back(given_optimizer_.back() + unit.optimizer.base());
    HeldParameters held = uses_.back();
    for (const ParameterUse& use : unit.parameters) {
      held.add(use);
      if (use.tensor < 0) continue;
      TiedParameter& parameter = parameters[use.tensor];
      if (!parameter.units.empty() && parameter.units.back() == u) continue;
      if (parameter.units.empty()) parameter.held.add(use);
      parameter.units.push_back(u);
    }
    uses_.push_back(held);
  }
  for (const HeldParameters& held : uses_) {
    elements_.push_back(held.elements() - held.matrix_elements());
    tensors_.push_back(held.tensors() - held.matrix_tensors());
  }
  for (const auto& [tensor, parameter] : parameters)
    if (parameter.units.size() > 1) tied_.push_back(parameter);
}

double StageTable::sum(std::vector<double> PassSums::*part, ActionKind kind, Recompute mode, int first, int end) const {
  if (recompute_first_ == 0) return between(sums(kind, mode).*part, first, end);
  const int until = recompute_end(costs_.workload(site_), first, end, recompute_first_);
  return between(sums(kind, mode).*part, first, until) + between(sums(kind, Recompute::None).*part, until, end);
}

double StageTable::launched(ActionKind kind, Recompute mode, int first, int end) const {
  const auto summed = [&](std::vector<double> PassSums::*part) { return sum(part, kind, mode, first, end); };
  const HostWork work(static_cast<int>(summed(&PassSums::launches)), Duration(summed(&PassSums::host)));
  return costs_.host_bound(Duration(summed(&PassSums::device)), work, site_).base();
}

double StageTable::device(ActionKind kind, Recompute mode, int first, int end) const {
  return sum(&PassSums::device, kind, mode, first, end) + sum(&PassSums::synchronous, kind, mode, first, end);
}

double StageTable::time(ActionKind kind, Recompute mode, int first, int end) const {
  return launched(kind, mode, first, end) + sum(&PassSums::synchronous, kind, mode, first, end);
}

HeldParameters StageTable::held(int first, int end) const {
  HeldParameters held = uses_[end];
  held.add(uses_[first], -1);
  for (const TiedParameter& parameter : tied_) {
    const auto begin = std::lower_bound(parameter.units.begin(), parameter.units.end(), first);
    const std::int64_t uses = std::lower_bound(begin, parameter.units.end(), end) - begin;
    if (uses > 1) held.add(parameter.held, 1 - uses);
  }
  return held;
}

}  // namespace panpipe
