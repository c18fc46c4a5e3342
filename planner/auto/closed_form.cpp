#include "planner/auto/closed_form.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/pass_rules.hpp"

namespace panpipe::planner {

PlacedStages::PlacedStages(const Stages& of, const std::vector<TiedParameter>& parameters, int p, int v, StagePlacement s)
    : ranks(p), chunks(v), placement(s), rank(at(p)), table(of) {
  for (int r = 0; r < p; ++r) {
    Rank& sum = rank[at(r)];
    for (int c = 0; c < v; ++c) {
      const int index = stage_of(r, c);
      const StageCost& cost = table.stages[at(index)];
      sum.fused += cost.forward + cost.backward;
      sum.split += cost.forward + cost.input_gradient + cost.weight_gradient;
      sum.work += cost.work;
      sum.weight = std::max(sum.weight, cost.weight_gradient);
      sum.optimizer += cost.optimizer;
      sum.elements += cost.elements;
      sum.tensors += cost.tensors;
      sum.given += cost.given;
      sum.gathered = c == 0 ? cost.gathered : std::min(sum.gathered, cost.gathered);
      const auto add_boundary = [&](int other, const StageCost& maker) {
        if (rank_of(other) != r) sum.buffers += maker.forward_bytes + maker.backward_bytes;
      };
      if (index > 0) {
        const StageCost& before = table.stages[at(index - 1)];
        add_boundary(index - 1, before);
        if (rank_of(index - 1) != r) sum.waiting = std::max(sum.waiting, before.forward_bytes);
      }
      if (index + 1 < p * v) {
        add_boundary(index + 1, cost);
        if (rank_of(index + 1) != r) sum.waiting = std::max(sum.waiting, cost.backward_bytes);
      }
    }
  }
  for (std::size_t t = 0; t < parameters.size(); ++t) {
    int first = p, last = -1;
    std::vector<int> uses(at(p), 0);
    for (const int stage : table.tied_stages[t]) {
      const int r = rank_of(stage);
      if (++uses[at(r)] > 1) {
        rank[at(r)].elements -= parameters[t].elements;
        rank[at(r)].tensors -= parameters[t].elements > 0 ? 1 : 0;
      }
      first = std::min(first, r);
      last = std::max(last, r);
    }
    if (first < last) tied.push_back({parameters[t].elements, first, last});
  }
}

PerParameter per_parameter(const CostModel& model, const Degrees& degrees) {
  const Scenario& scenario = model.scenario();
  const ModelCosts costs(model, degrees);
  const int type = scenario.cluster.devices.front().type;
  PerParameter per;
  // Where experts are divided over other ranks, of each the smaller: a bound.
  const ElementBytes experts = costs.expert_bytes();
  per.weights = std::min(costs.parameter_bytes(), experts.parameter);
  per.gradients = std::min(costs.gradient_bytes(), experts.gradient);
  per.optimizer = std::min(costs.optimizer_bytes(), experts.optimizer);
  const bool narrow = has_8bit_products(scenario.precision) && scenario.framework.fp8_parameters;
  if (narrow && zero_in_effect(scenario.framework, degrees) >= 3) per.weights /= 2;
  if (scenario.offload.parameters) per.weights = 0;
  per.reduced = costs.reduced_bytes();
  per.element = static_cast<double>(size_of(compute_dtype(scenario.precision)).base());
  if (narrow) per.element = 1;  // the least that is gathered
  constexpr std::int64_t kMany = 1'000'000'000;
  per.step = costs.optimizer(0, 0, type).total.base();
  per.step_per_element = (costs.optimizer(kMany, 0, type).total.base() - per.step) / kMany;
  per.step_per_tensor = (costs.optimizer(0, kMany, type).total.base() - per.step) / kMany;
  per.summed = costs.accumulation(kMany, 0, 1, type).total.base() / kMany;
  if (degrees.experts_apart()) {
    per.step_per_element = std::min(per.step_per_element, costs.expert_optimizer(kMany, 0, type).total.base() / kMany);
    per.step_per_tensor = std::min(per.step_per_tensor, costs.expert_optimizer(0, kMany, type).total.base() / kMany);
    per.summed = std::min(per.summed, costs.accumulation(0, kMany, 1, type).total.base() / kMany);
  }
  per.zero = zero_in_effect(scenario.framework, degrees);
  per.gathers_beside = gathers_beside(scenario.framework, per.zero);
  if (reduces_beside(scenario, per.zero))
    per.bucket = static_cast<double>(gradient_bucket(scenario, degrees.replicas(), per.reduced).base());
  per.data = degrees.replicas();
  per.shard = degrees.shard_group();
  per.experts_apart = degrees.experts_apart();
  return per;
}

void Surroundings::prepare(const PlacedStages& placed, const Ground& ground, double jitter,
                           const std::vector<RouteClasses::Hop>& hops, HandOvers& times, const Reductions& reductions,
                           const std::array<const PerParameter*, 4>& zeros, double tied_time_per_byte) {
  placed_ = &placed;
  ground_ = &ground;
  jitter_ = jitter;
  rank_.assign(at(placed.ranks), Rank{});
  add_chain(hops, times);
  for (const PerParameter* per : zeros)
    if (per != nullptr) add_closing(reductions, *per, tied_time_per_byte);
}

// The chain of stages, and what each rank meets on it.
void Surroundings::add_chain(const std::vector<RouteClasses::Hop>& hops, HandOvers& times) {
  const int p = placed_->ranks, stages = p * placed_->chunks;
  const auto& table = placed_->table.stages;
  down_.assign(at(stages), 0);
  up_.assign(at(stages), 0);
  for (int s = 0; s + 1 < stages; ++s) {
    const int from = placed_->rank_of(s), to = placed_->rank_of(s + 1);
    if (from == to) continue;
    // Neighbours, or around the corner; a V turns and goes back.
    const bool ascending = to == from + 1,
               around = placed_->placement == StagePlacement::Loop && from == p - 1 && to == 0 && p > 1;
    const RouteClasses::Hop& hop = hops[at(around ? p - 1 : std::min(from, to))];
    const bool forwards = ascending || around;
    down_[at(s)] = times.time(forwards ? hop.forward : hop.backward, table[at(s)].forward_bytes);
    up_[at(s + 1)] = times.time(forwards ? hop.backward : hop.forward, table[at(s)].backward_bytes);
  }
  double arrive = 0, fused = 0, split = 0;
  slowest_forward_ = slowest_backward_ = 0;
  for (int r = 0; r < p; ++r) {  // the lowest stage of rank r is stage r
    Rank& rank = rank_[at(r)];
    rank.to_before = up_[at(r)];
    if (r > 0) {
      const StageCost& before = table[at(r - 1)];
      arrive += before.forward * jitter_ + down_[at(r - 1)];
      fused +=
          (ground_->early_gradients ? std::min(before.input_gradient, before.backward) : before.backward) * jitter_ + up_[at(r)];
      split += std::min(before.input_gradient, before.backward) * jitter_ + up_[at(r)];
    }
    rank.arrive = arrive;
    rank.tail_fused = fused;
    rank.tail_split = split;
    if (ground_->blocking) {
      for (int c = 0; c < placed_->chunks; ++c) {
        const int s = placed_->stage_of(r, c);
        rank.blocked += down_[at(s)] + up_[at(s)];
      }
    }
    const double wait = ground_->blocking ? 1 : 0;
    slowest_forward_ = std::max(slowest_forward_, table[at(r)].forward * jitter_ + wait * down_[at(r)]);
    slowest_backward_ = std::max(slowest_backward_, table[at(r)].backward * jitter_ + wait * up_[at(r)]);
  }
  double loop_fused = 0, loop_split = 0;
  fill_backward_ = 0;
  for (int r = p - 1; r >= 0; --r) {
    const double hops_below = r + 1 < p ? down_[at(r)] + up_[at(r + 1)] : 0;
    const StageCost& cost = table[at(r)];
    loop_fused += (cost.forward + cost.backward) * jitter_ + hops_below;
    loop_split += (cost.forward + cost.input_gradient) * jitter_ + hops_below;
    rank_[at(r)].loop_fused = loop_fused;
    rank_[at(r)].loop_split = loop_split;
  }
  fill_forward_ = arrive + table[at(p - 1)].forward * jitter_;
  fill_backward_ = fused + table[at(p - 1)].backward * jitter_;
}

// After a rank's last pass: gradients of its stages, those that it shares with another rank, the optimizer, new weights.
void Surroundings::add_closing(const Reductions& reductions, const PerParameter& per, double tied_time_per_byte) {
  const auto zero = at(per.zero);
  const auto& stages = placed_->table.stages;
  double known_bytes = -1, known_weights = -1, known_gather = 0;
  // On the data lane, and of it what is surely behind the backward.
  struct Reduction {
    double all = 0, last = 0;
  } known_reduce;
  // Groups of some of the replicas are not priced here: what they exchange counts as nothing, which no plan is below.
  const bool in_groups = (per.zero >= 1 && per.shard < per.data) || per.experts_apart;
  const auto collective = [&](double bytes) {
    if (in_groups) return 0.0;
    return per.zero >= 1 ? reductions.scatter(bytes) : reductions.all_reduce(bytes);
  };
  const auto reduce = [&](const StageCost& stage) {
    const double bytes = static_cast<double>(stage.elements) * per.reduced + static_cast<double>(stage.given);
    if (bytes == known_bytes) return known_reduce;
    known_bytes = bytes;
    known_reduce.all = known_reduce.last = collective(bytes);
    if (per.bucket > 0 && bytes > per.bucket) {  // a pass of a group is followed by the whole
      const double full = std::floor(bytes / per.bucket), rest = bytes - full * per.bucket;
      known_reduce.all = std::min(known_reduce.all, full * collective(per.bucket) + collective(rest));
      known_reduce.last = std::min(known_reduce.last, collective(rest > 0 ? rest : per.bucket));
    }
    if (per.zero >= 3) known_reduce.last = 0;  // of a block, whose size is not known here
    return known_reduce;
  };
  const auto gather = [&](const StageCost& stage) {
    const double bytes = static_cast<double>(stage.elements) * per.element + static_cast<double>(stage.given);
    if (bytes != known_weights) known_weights = bytes, known_gather = in_groups ? 0 : reductions.scatter(bytes);
    return known_gather;
  };
  for (int r = 0; r < placed_->ranks; ++r) {
    Rank& rank = rank_[at(r)];
    double all = 0, least = 0, gathers = 0;
    for (int c = 0; c < placed_->chunks && per.data > 1; ++c) {
      const StageCost& stage = stages[at(placed_->stage_of(r, c))];
      const Reduction time = reduce(stage);
      least = c == 0 ? time.last : std::min(least, time.last);
      all += time.all;
      if (per.zero >= 1) gathers += gather(stage);
    }
    const PlacedStages::Rank& sums = placed_->rank[at(r)];
    const auto elements = static_cast<double>(sums.elements), tensors = static_cast<double>(sums.tensors);
    rank.summing[zero] = per.summed * elements;
    double closing = per.step + std::max(per.step_per_element * elements, per.step_per_tensor * tensors) + sums.optimizer;
    if ((per.zero == 1 || per.zero == 2) && !per.gathers_beside) closing += gathers;
    // Who waits for the send of its last pass reduces meanwhile.
    const double reduced = per.bucket > 0 ? least : all;
    rank.closing[zero] = closing + reduced - (ground_->blocking ? std::min(rank.to_before, reduced) : 0);
    rank.draining[zero] = closing + all;
    // A microbatch's gradients one after another, under ZeRO 3 also the weights of its forward and its backward.
    rank.data_lane[zero] = per.zero >= 2 ? all + (per.zero == 3 ? 2 * gathers : 0) : 0;
  }
  const double share = per.zero >= 2 ? per.shard : 1;
  for (const PlacedStages::Tied& tied : placed_->tied) {
    const double time = tied_time_per_byte * static_cast<double>(tied.elements) * per.reduced / share;
    for (const int r : {tied.first, tied.last}) {
      rank_[at(r)].closing[zero] += time;
      rank_[at(r)].draining[zero] += time;
    }
  }
}

// All forwards before the first full backward of the last rank (gpipe).
double Surroundings::phases(int microbatches) const {
  return fill_forward_ + fill_backward_ + (microbatches - 1) * (slowest_forward_ + slowest_backward_);
}

// 1F1B and its like: of rank r's forwards number k + n starts only after k + 1 gradients have come back, n = its activations in
// flight; one of them is of a forward with number k or above.
double Surroundings::in_flight(const FamilyForm& form, int microbatches, const OrderCounts& order) const {
  double longest = 0;
  for (int r = 0; r < placed_->ranks; ++r) {
    const Rank& rank = rank_[at(r)];
    const int n = std::max(1, order[at(r)].in_flight);
    const int rounds = (microbatches - 1) / n, rest = (microbatches - 1) % n;
    const StageCost& cost = placed_->table.stages[at(r)];
    const double loop = form.split ? rank.loop_split : rank.loop_fused;
    // Of the microbatches beyond whole rounds all forwards have run before, or all gradients come after.
    const double own = std::max(cost.forward, form.split ? cost.input_gradient : cost.backward) * jitter_;
    const double tail = form.split ? rank.tail_split : rank.tail_fused;
    longest = std::max(longest, rank.arrive + (rounds + 1) * loop + rest * own + tail);
  }
  return longest;
}

// What rank r is busy with for one microbatch.
double Surroundings::busy(int r, const FamilyForm& form) const {
  const PlacedStages::Rank& sums = placed_->rank[at(r)];
  const bool bare = form.woven || !ground_->count_collectives;
  // The two sends of a group run side by side: at least half of their sum is waited for.
  const double waited = form.woven ? rank_[at(r)].blocked / 2 : rank_[at(r)].blocked;
  return (bare ? sums.work : form.split ? sums.split : sums.fused) * jitter_ + waited;
}

// Until the last gradient of a microbatch has come to rank 0, whose own work it ends.
double Surroundings::late(const FamilyForm& form, int microbatches, const OrderCounts& order) const {
  double latest = 0;
  for (int r = 0; r < placed_->ranks; ++r) {
    const Rank& rank = rank_[at(r)];
    const double weight = placed_->rank[at(r)].weight * jitter_;
    double tail = form.split ? rank.tail_split : rank.tail_fused;
    if (ground_->blocking) tail -= rank.to_before;  // counted as waiting
    if (ground_->early_gradients && form.whole) tail -= weight;
    latest = std::max(latest, rank.arrive + microbatches * busy(r, form) - order[at(r)].weights_after * weight + tail);
  }
  if (placed_->placement != StagePlacement::Line || !ground_->count_collectives || form.woven) return latest;
  if (!form.split && order.back().in_flight >= microbatches) latest = std::max(latest, phases(microbatches));
  return std::max(latest, in_flight(form, microbatches, order));
}

std::array<double, 4> Surroundings::bounds(const FamilyForm& form, int microbatches, const OrderCounts& order) const {
  const double m = microbatches;
  std::array<double, 4> longest{};
  if (form.placement == StagePlacement::Opaque) {  // the mean over ranks, for any placement and order
    double work = 0;
    for (const PlacedStages::Rank& rank : placed_->rank) work += rank.work;
    longest.fill(m * work * ground_->stated_work / static_cast<double>(rank_.size()) * jitter_);
    return longest;
  }
  for (int r = 0; r < placed_->ranks; ++r) {
    const Rank& rank = rank_[at(r)];
    const double end = rank.arrive + m * busy(r, form);
    // With one stage all else that the rank runs stands before its last backward or weight gradient, which buckets may run
    // beside.
    const StageCost& own = placed_->table.stages[at(placed_->stage_of(r, 0))];
    const double last = std::max(own.backward, own.weight_gradient) * jitter_ + (ground_->blocking ? rank.to_before : 0);
    for (std::size_t z = 0; z < longest.size(); ++z) {
      // The first parameters are gathered before anything arrives.
      longest[z] = std::max({longest[z], end + rank.closing[z], (z < 3 ? rank.arrive : 0) + m * rank.data_lane[z]});
      // The host may hide the sums of gradients, but the device has to make them besides the rest of its work.
      const double summed = m * (placed_->rank[at(r)].work + rank.summing[z]) * jitter_;
      longest[z] = std::max(longest[z], rank.arrive + summed + rank.closing[z]);
      if (placed_->chunks == 1) longest[z] = std::max(longest[z], end - last + rank.draining[z]);
    }
  }
  if (order.empty() || order.front().in_flight == 0) return longest;
  const double until_last = late(form, microbatches, order);
  for (std::size_t z = 0; z < longest.size(); ++z) longest[z] = std::max(longest[z], until_last + rank_[0].closing[z]);
  return longest;
}

namespace {

// Pfeife keeps what a pass saves, whatever is recomputed, until its weight gradient is made, and for every microbatch of the step
// three buffers of what comes into a stage and two of what leaves it.
double pfeife_peak(const PlacedStages& placed, const Moment& moment, int r, int microbatches) {
  std::int64_t held = 0, waiting = 0, rise = 0, buffers = 0;
  if (moment.forward >= 0) rise = placed.stage(r, moment.forward).saved_rise;
  if (moment.backward >= 0) rise = std::max(rise, placed.stage(r, moment.backward).saved_rise);
  for (int c = 0; c < placed.chunks; ++c) {
    const int s = placed.stage_of(r, c);
    const std::int64_t saved = placed.stage(r, c).saved;
    held += moment.held[at(c)] * saved;
    waiting = c == 0 ? saved : std::min(waiting, saved);
    if (s > 0) buffers += 3 * placed.table.stages[at(s - 1)].forward_bytes;
    if (s + 1 < placed.ranks * placed.chunks) buffers += 2 * placed.table.stages[at(s)].forward_bytes;
  }
  return static_cast<double>(held + moment.weights * waiting + rise + buffers * microbatches);
}

}  // namespace

void activation_peaks(const PlacedStages& placed, const Ground& ground, const OrderCounts& order, int microbatches,
                      std::vector<double>& peaks) {
  peaks.assign(at(placed.ranks), 0);
  for (int r = 0; at(r) < order.size(); ++r) {
    for (const Moment& moment : order[at(r)].moments) {
      if (ground.as_pfeife) {
        peaks[at(r)] = std::max(peaks[at(r)], pfeife_peak(placed, moment, r, microbatches));
        continue;
      }
      std::int64_t held = 0, waiting = 0, rise = 0;
      for (int c = 0; c < placed.chunks; ++c) {
        const StageCost& stage = placed.stage(r, c);
        held += moment.held[at(c)] * stage.kept;
        waiting = c == 0 ? stage.kept_for_weight : std::min(waiting, stage.kept_for_weight);
      }
      if (moment.forward >= 0) rise = placed.stage(r, moment.forward).forward_rise;
      if (moment.backward >= 0) {
        const StageCost& stage = placed.stage(r, moment.backward);
        rise = std::max(rise, moment.whole ? stage.backward_rise : stage.input_rise);
      }
      peaks[at(r)] = std::max(peaks[at(r)], static_cast<double>(held + moment.weights * waiting + rise));
    }
  }
}

RankMemories memory_peaks(const PlacedStages& placed, const Ground& ground, const PerParameter& per,
                          const std::vector<double>& activations) {
  double largest = 0, sum = 0;
  const auto add = [&](double bytes) {
    largest = std::max(largest, bytes);
    sum += bytes;
  };
  const double group = per.shard;
  const double given_copies = (per.zero >= 3 ? 1 / group : 1) + (per.zero >= 2 ? 1 / group : 1);
  if (placed.placement == StagePlacement::Opaque) {
    // Every element is somewhere, and before its first gradient all that a microbatch leaves is.
    double elements = 0, kept = 0;
    for (const PlacedStages::Rank& rank : placed.rank) elements += static_cast<double>(rank.elements);
    for (const StageCost& stage : placed.table.stages) kept += static_cast<double>(stage.kept);
    const double copies = ground.as_pfeife ? 4 * per.weights : per.weights + per.gradients + per.optimizer;
    const double all = elements * copies + kept * ground.stated_kept;
    const double mean = static_cast<double>(ground.context) + ground.allocator * all / placed.ranks;
    return {mean, mean};
  }
  for (int r = 0; r < placed.ranks; ++r) {
    const PlacedStages::Rank& rank = placed.rank[at(r)];
    const auto elements = static_cast<double>(rank.elements), given = static_cast<double>(rank.given);
    if (ground.as_pfeife) {  // parameters, gradients and two moments, all alike
      add(4 * (std::ceil(elements * per.weights) + given) + activations[at(r)]);
      continue;
    }
    double bytes = std::ceil(elements * per.weights) + std::ceil(elements * per.gradients) + std::ceil(elements * per.optimizer);
    bytes += given * given_copies;
    bytes += static_cast<double>(ground.one_message ? rank.waiting : rank.buffers) + activations[at(r)];
    if (per.zero >= 3 && per.data > 1) bytes += static_cast<double>(rank.gathered);
    add(static_cast<double>(ground.context) + std::nearbyint(ground.allocator * bytes));
  }
  return {largest, sum / placed.ranks};
}

}  // namespace panpipe::planner
