// Times an order with one cost per pass. Each rank runs its row in order. A unit starts when the rank is free and every input has
// arrived, `comm` later if another rank made it. Offloads and reloads run on the rank's copy lane, one after the other, each when
// the passes before it in the row are done; passes that need the tensors wait for the reload. Sends, receives and the actions on
// parameters take no time here.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "schedule/activations.hpp"
#include "schedule/memory/parking.hpp"
#include "schedule/pass_costs.hpp"
#include "schedule/rolling.hpp"
#include "schedule/schedule.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

ScheduleEvaluation evaluate(const Schedule& schedule, const PassCosts& costs, bool split_groups) {
  std::optional<ScheduleEvaluation> result = evaluate_if_it_ends(schedule, costs, split_groups);
  PANPIPE_CHECK(result.has_value(), "only an order that can finish can be evaluated");
  result->period = rolling_period(schedule, costs, split_groups);
  if (rolling_of(schedule) == Rolling::Stale &&
      schedule.microbatches < schedule.ranks)  // a step alone does not fill the pipeline
    result->peak_activations =
        evaluate_if_it_ends(rolled(schedule, weight_versions(schedule)), costs, split_groups)->peak_activations;
  return *std::move(result);
}

std::optional<ScheduleEvaluation> evaluate_if_it_ends(const Schedule& schedule, const PassCosts& costs, bool split_groups) {
  check_stage_costs(costs, schedule.stages);
  const Products products(schedule);
  Parking parking(schedule, products, costs);
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  ScheduleEvaluation result;
  result.busy.assign(ranks, 0);
  result.times.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) result.times[rank].resize(schedule.order[rank].size());
  const bool receives = has_receives(schedule);
  std::vector<double> made_at(products.count() + 1, 0), free_at(ranks, 0), first_start(ranks, -1);

  const auto run_unit = [&](std::int32_t rank_number, std::size_t first, std::size_t count) {
    const auto rank = static_cast<std::size_t>(rank_number);
    const Action* actions = schedule.order[rank].data() + first;
    if (is_copy(actions[0].kind)) {
      result.times[rank][first] = parking.run(actions[0], rank, free_at[rank]);
      return;
    }
    double start = free_at[rank], length = 0;
    for (std::size_t i = 0; i < count; ++i) {
      length += cost_of(actions[i], costs);
      if (!actions[i].is_compute() && !actions[i].is_vocabulary()) continue;
      products.for_inputs(actions[i], false, schedule.stage_to_rank, [&](const Products::Product& input) {
        const bool away = schedule.stage_to_rank[input.stage] != rank_number;
        double ready = made_at[products.number(input)];
        // Parts of a cut vocabulary come from exchanges, not in messages.
        if (away && receives && input.kind <= Products::Gradient) ready = std::max(ready, made_at[products.message(input)]);
        start = std::max(start, ready + (away ? costs.comm : 0));
      });
      if (parking.has_reloaded()) start = std::max(start, parking.back(actions[i]));
    }
    const double end = start + length;
    for (std::size_t i = 0; i < count; ++i) {
      made_at[products.output(actions[i])] = end;
      parking.ran(actions[i]);
      result.times[rank][first + i] = {start, end};
    }
    if (!actions[0].is_compute() && !actions[0].is_vocabulary()) return;
    free_at[rank] = end;
    result.busy[rank] += length;
    if (first_start[rank] < 0) first_start[rank] = start;
  };
  if (!walk(schedule, products, receives, split_groups, run_unit).finishes(schedule)) return std::nullopt;

  double busy = 0, spans = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double span = free_at[rank] - std::max(first_start[rank], 0.0);
    result.makespan = std::max(result.makespan, free_at[rank]);
    result.span = std::max(result.span, span);
    busy += result.busy[rank];
    spans += span;
  }
  if (!std::isfinite(result.makespan + busy + spans)) throw InputError("the order takes no finite time: the costs are too large");
  for (const ActivationCurve& curve : activation_curves(schedule, result))
    result.peak_activations.push_back(static_cast<int>(curve.peak));
  if (result.makespan > 0) result.bubble_step = 1 - busy / (result.makespan * static_cast<double>(ranks));
  if (spans > 0) result.bubble_span = 1 - busy / spans;
  return result;
}

}  // namespace panpipe
