#include "study/arena/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "costmodel/plan/slots.hpp"
#include "schedule/activations.hpp"
#include "schedule/rolling.hpp"
#include "schedule/walk.hpp"

namespace panpipe::study {
namespace {

// The parts of the backward are equal, and the one that turns a microbatch round is as large as they are; what it leaves is cut
// equally into the parts of the forward.
std::vector<PassCosts::Stage> costs_of_slots(const Schedule& schedule, const CostRatio& ratio, SlotCounts slots) {
  const std::vector<Way> ways = ways_of_stages(schedule);
  const double back = share_of_activation(schedule), forth = (schedule.ranks - back) / slots.forward;
  std::vector<PassCosts::Stage> stages;
  for (const Way way : ways) {
    const double forward = way == Way::Forth ? forth : back;
    stages.push_back({forward, ratio.I * forward, ratio.W * forward});
  }
  return stages;
}

// Each slice of a microbatch has its part of the head.
void add_head(const Schedule& schedule, double head, SlotCounts slots, PassCosts& costs) {
  if (costs.stages.empty()) costs.stages.assign(schedule.stages, {costs.F, costs.I, costs.W});
  for (const std::vector<int>& chain : schedule.chains) {
    PassCosts::Stage& last = costs.stages[slots.any() ? chain[slots.forward] : chain.back()];
    for (double* pass : {&last.F, &last.I, &last.W}) *pass += head / schedule.splits;
  }
}

// Microbatch m of chain c becomes a chain of its own. Of two chains the second runs the second half of the microbatches.
void unroll(const CostRatio& ratio, Played& played) {
  const Schedule order = std::move(played.schedule);
  const int chains = static_cast<int>(order.chains.size()), each = order.microbatches / chains;
  const std::vector<double> sizes = sizes_of(ratio, order.microbatches);
  const PassCosts::Stage even = {played.costs.F, played.costs.I, played.costs.W};
  std::vector<PassCosts::Stage> stages = std::move(played.costs.stages);
  if (stages.empty()) stages.assign(order.stages, even);
  std::vector<int> chain_of(order.stages, 0);
  for (int c = 0; c < chains; ++c)
    for (const int stage : order.chains[c]) chain_of[stage] = c;
  Schedule all = order;
  all.stages = order.stages * each;
  all.chains.clear();
  all.stage_to_rank.clear();
  all.empty_cells.clear();
  for (int m = 0; m < each; ++m) {
    for (std::vector<int> chain : order.chains) {
      for (int& stage : chain) stage += m * order.stages;
      all.chains.push_back(std::move(chain));
    }
    for (int stage = 0; stage < order.stages; ++stage) {
      const double size = sizes[chain_of[stage] * each + m];
      const PassCosts::Stage& one = stages[stage];
      all.stage_to_rank.push_back(order.stage_to_rank[stage]);
      played.costs.stages.push_back({one.F * size, one.I * size, one.W * size});
      played.sizes.push_back(size);
    }
  }
  for (std::vector<Action>& row : all.order)
    for (Action& action : row)
      if (action.microbatch >= 0) {
        action.stage += action.microbatch * order.stages;
        action.microbatch = 0;
      }
  played.schedule = std::move(all);
}

void check_lengths(const Schedule& schedule) {
  const char* with = schedule.vocabulary_barriers > 0        ? "a vocabulary cut over the ranks"
                     : find_action(schedule, is_copy)        ? "copies to the host"
                     : rolling_of(schedule) != Rolling::None ? "steps without a flush"
                                                             : nullptr;
  if (with != nullptr)
    throw InputError(std::string("microbatches of unequal length together with ") + with + " have no unit here");
}

// Figures of a step, from those of so many in a row.
void set_period(const Schedule& one, Played& played) {
  played.makespan = *rolling_period(one, played.costs);
  const std::vector<double>& busy = played.evaluation.busy;
  played.bubble = 1 - std::accumulate(busy.begin(), busy.end(), 0.0) / played.steps / (played.makespan * one.ranks);
}

}  // namespace

std::vector<double> sizes_of(const CostRatio& ratio, int microbatches) {
  std::vector<double> sizes;
  for (int m = 0; m < microbatches; ++m) sizes.push_back(ratio.lengths[m % ratio.lengths.size()]);
  const double mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / microbatches;
  for (double& size : sizes) size /= mean;
  return sizes;
}

int stages_of_share(const Schedule& schedule) {
  return std::max(1, static_cast<int>(schedule.chains.front().size()) / std::max(1, schedule.ranks));
}

double share_of_activation(const Schedule& schedule) {
  const SlotCounts slots = slot_counts(schedule);
  if (slots.any()) return static_cast<double>(schedule.ranks) / slots.backward;
  return 1.0 / stages_of_share(schedule) / schedule.splits;
}

PassCosts plain_costs(const Schedule& schedule, const CostRatio& ratio) {
  const SlotCounts slots = slot_counts(schedule);
  PassCosts costs;
  costs.F = share_of_activation(schedule);
  costs.I = ratio.I * costs.F;
  costs.W = ratio.W * costs.F;
  costs.offload = ratio.copy * costs.F;
  if (slots.any()) costs.stages = costs_of_slots(schedule, ratio, slots);
  if (schedule.vocabulary_barriers == 0) {
    if (ratio.head > 0) add_head(schedule, ratio.head, slots, costs);
    costs.S = costs.T = 0;
    return costs;
  }
  // S is the forward of a rank's part, T its weight gradient; the input gradient is in S if the backward does not wait for T.
  const double part = ratio.head / schedule.ranks;
  costs.S = (schedule.vocabulary_barriers == 1 ? 2 : 1) * part;
  costs.T = 3 * part - costs.S;
  return costs;
}

Played priced(const Schedule& schedule, const CostRatio& ratio) {
  Played played{schedule, plain_costs(schedule, ratio)};
  if (ratio.lengths.empty()) return played;
  check_lengths(schedule);
  unroll(ratio, played);
  return played;
}

Played play(const Schedule& schedule, const CostRatio& ratio) {
  Played played = priced(schedule, ratio);
  const bool rolls = rolling_of(schedule) != Rolling::None;
  if (weight_versions(schedule) > 2)
    throw InputError(fmt::format("{} with {} versions of the weights has no place in the arena: its period needs a longer window",
                                 schedule.name, weight_versions(schedule)));
  if (rolls) {
    played.steps = steps_to_roll(schedule);
    played.window = steps_in_window(schedule);
    played.schedule = rolled(schedule, played.steps);
  }
  played.evaluation = *evaluate_if_it_ends(played.schedule, played.costs);
  played.makespan = played.evaluation.makespan;
  played.bubble = played.evaluation.bubble_step;
  if (rolls) set_period(schedule, played);
  std::vector<double> peaks;
  for (const ActivationCurve& curve : activation_curves(played.schedule, played.evaluation, played.sizes))
    peaks.push_back(curve.peak);
  const auto [least, most] = std::minmax_element(peaks.begin(), peaks.end());
  const double share = share_of_activation(schedule);
  played.held = *most * share;
  played.held_least = *least * share;
  const std::vector<int>& counted = played.evaluation.peak_activations;
  played.most_activations = *std::max_element(counted.begin(), counted.end());
  return played;
}

}  // namespace panpipe::study
