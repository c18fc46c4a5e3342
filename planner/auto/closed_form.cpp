#include "planner/auto/closed_form.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/pass_rules.hpp"

namespace panpipe::planner {

PlacedStages::PlacedStages(const Stages& of, const std::vector<TiedParameter>& parameters, const MemoryModel& memory, int p,
                           int v, StagePlacement s)
    : ranks(p), chunks(v), placement(s), rank(at(p)), table(of) {
  std::vector<BoundaryBytes> boundaries(at(v));
  for (int r = 0; r < p; ++r) {
    Rank& sum = rank[r];
    for (int c = 0; c < v; ++c) {
      const int index = stage_of(r, c);
      const StageCost& cost = table.stages[index];
      sum.fused += cost.forward + cost.backward;
      sum.split += cost.forward + cost.input_gradient + cost.weight_gradient;
      sum.work += cost.work;
      sum.weight = std::max(sum.weight, cost.weight_gradient);
      sum.optimizer += cost.optimizer;
      sum.held.add(cost.held);
      sum.gathered = c == 0 ? cost.gathered : std::min(sum.gathered, cost.gathered);
      BoundaryBytes& boundary = boundaries[c] = {};
      const auto crosses = [&](int other) { return rank_of(other) != r || memory.buffers_every_edge(); };
      if (index > 0 && crosses(index - 1)) {
        boundary.in = table.stages[index - 1].forward_bytes;
        boundary.gradients_out = table.stages[index - 1].backward_bytes;
      }
      if (index + 1 < p * v && crosses(index + 1)) boundary.out = cost.forward_bytes, boundary.gradients_in = cost.backward_bytes;
    }
    sum.buffers = memory.hand_over_buffers(boundaries, 1).base();
  }
  for (std::size_t t = 0; t < parameters.size(); ++t) {
    int first = p, last = -1;
    std::vector<int> uses(at(p), 0);
    for (const int stage : table.tied_stages[t]) {
      const int r = rank_of(stage);
      if (++uses[r] > 1) rank[r].held.add(parameters[t].held, -1);
      first = std::min(first, r);
      last = std::max(last, r);
    }
    if (first < last) tied.push_back({parameters[t].held.elements(), first, last});
  }
}

PerParameter per_parameter(const CostModel& model, const Degrees& degrees) {
  const Scenario& scenario = model.scenario();
  const ModelCosts costs(model, degrees);
  const int type = scenario.cluster.devices.front().type;
  PerParameter per{.traffic = ReplicaTraffic(scenario.framework, degrees)};
  per.precision = scenario.precision;
  per.state = MemoryModel(scenario).state(costs, degrees);
  per.reduced = costs.reduced_bytes();
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
  if (steps_matrices(scenario.optimizer.name) && degrees.exchanges() &&
      matrix_sharding(scenario, per.zero) == MatrixSharding::Layers)
    per.matrix_share = 1.0 / degrees.shard_group();
  per.overlaps_gathers = overlaps_gathers(scenario.framework, per.zero);
  if (overlaps_reductions(scenario, per.zero)) per.bucket = gradient_bucket(scenario, degrees.replicas(), per.reduced);
  per.data = degrees.replicas();
  per.shard = degrees.shard_group();
  return per;
}

void StageTraffic::prepare(const PlacedStages& placed, const SearchFacts& facts, double jitter,
                           const std::vector<RouteClasses::Hop>& hops, HandOvers& times, const Reductions& reductions,
                           const std::array<const PerParameter*, 4>& zeros, double tied_time_per_byte) {
  placed_ = &placed;
  facts_ = &facts;
  jitter_ = jitter;
  rank_.assign(at(placed.ranks), Rank{});
  add_chain(hops, times);
  for (const PerParameter* per : zeros)
    if (per != nullptr) add_closing(reductions, *per, tied_time_per_byte);
}

// The chain of stages, and each rank's messages on it.
void StageTraffic::add_chain(const std::vector<RouteClasses::Hop>& hops, HandOvers& times) {
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
    const RouteClasses::Hop& hop = hops[around ? p - 1 : std::min(from, to)];
    const bool forwards = ascending || around;
    down_[s] = times.time(forwards ? hop.forward : hop.backward, table[s].forward_bytes);
    up_[s + 1] = times.time(forwards ? hop.backward : hop.forward, table[s].backward_bytes);
  }
  double arrive = 0;
  std::array<double, 2> tail{}, loop{};
  slowest_forward_ = slowest_backward_ = 0;
  for (int r = 0; r < p; ++r) {  // the lowest stage of rank r is stage r
    Rank& rank = rank_[r];
    rank.to_before = up_[r];
    if (r > 0) {
      const StageCost& before = table[r - 1];
      arrive += before.forward * jitter_ + down_[r - 1];
      for (const bool split : {false, true})
        tail[at(split)] +=
            (split || facts_->early_gradients ? std::min(before.input_gradient, before.backward) : before.backward) * jitter_ +
            up_[r];
    }
    rank.arrive = arrive;
    rank.tail = tail;
    if (facts_->blocking) {
      for (int c = 0; c < placed_->chunks; ++c) {
        const int s = placed_->stage_of(r, c);
        rank.blocked += down_[s] + (facts_->early_gradients ? 0 : up_[s]);  // which the rest of the backward may hide
      }
    }
    const double wait = facts_->blocking ? 1 : 0;
    slowest_forward_ = std::max(slowest_forward_, table[r].forward * jitter_ + wait * down_[r]);
    slowest_backward_ = std::max(slowest_backward_, table[r].backward * jitter_ + wait * up_[r]);
  }
  for (int r = p - 1; r >= 0; --r) {
    const double hops_below = r + 1 < p ? down_[r] + up_[r + 1] : 0;
    const StageCost& cost = table[r];
    for (const bool split : {false, true})
      loop[at(split)] += (cost.forward + (split ? cost.input_gradient : cost.backward)) * jitter_ + hops_below;
    rank_[r].loop = loop;
  }
  fill_forward_ = arrive + table[p - 1].forward * jitter_;
  fill_backward_ = tail[0] + table[p - 1].backward * jitter_;
}

namespace {

// What replicas exchange of a stage: gradients and weights of parameters that all of them hold, and of experts.
struct SentBytes {
  Bytes others{0}, experts{0}, weights{0}, expert_weights{0};
  bool operator==(const SentBytes&) const = default;
};
SentBytes sent_by(const StageCost& stage, const PerParameter& per) {
  SentBytes sent{gradient_bytes(stage.held.others, per.reduced), gradient_bytes(stage.held.experts, per.reduced)};
  if (per.zero == 0) return sent;
  const HeldParameters held = per.zero >= 3 ? stage.held : stage.held.trained();
  sent.weights = weight_bytes(held.others, per.precision);
  sent.expert_weights = weight_bytes(held.experts, per.precision);
  return sent;
}

// On the data lane, seconds; of the gradients also what is surely behind the backward.
struct Exchanges {
  double reduce = 0, last = 0, gather = 0;
};
Exchanges exchanges_of(const SentBytes& sent, const Reductions& reductions, const PerParameter& per) {
  Exchanges all;
  if (per.zero >= 1) all.gather = reductions.time(per.traffic.gather(sent.weights, sent.expert_weights));
  all.reduce = all.last = reductions.time(per.traffic.reduction({0, sent.others}, {0, sent.experts}, Bytes(0)));
  if (const Bytes size = per.bucket;
      size > Bytes(0) && sent.others + sent.experts > size) {  // a pass of a group is followed by the whole
    const Pieces most = cut(sent.others, size), more = cut(sent.experts, size);
    Pieces last{0, most.rest};
    if (last.empty() && sent.experts == Bytes(0)) last.whole = 1;
    all.reduce = std::min(all.reduce, reductions.time(per.traffic.reduction(most, more, size)));
    all.last = std::min(all.last, reductions.time(per.traffic.reduction(last, {0, more.rest}, size)));
  }
  if (per.zero >= 3) all.last = 0;  // of a block, whose size is not known here
  return all;
}

}  // namespace

// After a rank's last pass: gradients of its stages, those that it shares with another rank, the optimizer, new weights.
void StageTraffic::add_closing(const Reductions& reductions, const PerParameter& per, double tied_time_per_byte) {
  const auto zero = at(per.zero);
  SentBytes sent{Bytes(-1)};  // of the stage before, which most are like
  Exchanges of_stage;
  for (int r = 0; r < placed_->ranks; ++r) {
    Rank& rank = rank_[r];
    double all = 0, least = 0, gathers = 0;
    for (int c = 0; c < placed_->chunks && per.data > 1; ++c) {
      if (const SentBytes own = sent_by(placed_->stage(r, c), per); own != sent)
        sent = own, of_stage = exchanges_of(own, reductions, per);
      least = c == 0 ? of_stage.last : std::min(least, of_stage.last);
      all += of_stage.reduce;
      gathers += of_stage.gather;
    }
    const PlacedStages::Rank& sums = placed_->rank[r];
    const auto elements = static_cast<double>(sums.held.elements()),
               by_element = static_cast<double>(sums.held.elements() - sums.held.matrix_elements()),
               tensors = static_cast<double>(sums.held.tensors() - sums.held.matrix_tensors());
    rank.summing[zero] = per.summed * elements;
    double closing =
        per.step + std::max(per.step_per_element * by_element, per.step_per_tensor * tensors) + per.matrix_share * sums.optimizer;
    if ((per.zero == 1 || per.zero == 2) && !per.overlaps_gathers) closing += gathers;
    // A rank that waits for the send of its last pass reduces meanwhile.
    const double reduced = per.bucket > Bytes(0) ? least : all;
    rank.closing[zero] = closing + reduced - (facts_->blocking ? std::min(rank.to_before, reduced) : 0);
    rank.draining[zero] = closing + all;
    // A microbatch's gradients one after another, under ZeRO 3 also the weights of its forward and its backward.
    rank.data_lane[zero] = per.zero >= 2 ? all + (per.zero == 3 ? 2 * gathers : 0) : 0;
  }
  const double share = per.zero >= 2 ? per.shard : 1;
  for (const PlacedStages::Tied& tied : placed_->tied) {
    const double time = tied_time_per_byte * static_cast<double>(tied.elements) * per.reduced / share;
    for (const int r : {tied.first, tied.last}) {
      rank_[r].closing[zero] += time;
      rank_[r].draining[zero] += time;
    }
  }
}

// All forwards before the first full backward of the last rank (gpipe).
double StageTraffic::phases(int microbatches) const {
  return fill_forward_ + fill_backward_ + (microbatches - 1) * (slowest_forward_ + slowest_backward_);
}

// 1F1B and its like: of rank r's forwards number k + n starts only after k + 1 gradients have come back, n = its activations in
// flight; one of them is of a forward with number k or above.
double StageTraffic::in_flight(const FamilyForm& form, int microbatches, const OrderCounts& order) const {
  double longest = 0;
  for (int r = 0; r < placed_->ranks; ++r) {
    const Rank& rank = rank_[r];
    const int n = std::max(1, order[r].in_flight);
    const int rounds = (microbatches - 1) / n, rest = (microbatches - 1) % n;
    const StageCost& cost = placed_->table.stages[r];
    // For the microbatches beyond whole rounds, all forwards have run before, or all gradients come after.
    const double own = std::max(cost.forward, form.split ? cost.input_gradient : cost.backward) * jitter_;
    longest = std::max(longest, rank.arrive + (rounds + 1) * rank.loop[at(form.split)] + rest * own + rank.tail[at(form.split)]);
  }
  return longest;
}

// The time for which one microbatch keeps rank r busy.
double StageTraffic::busy(int r, const FamilyForm& form) const {
  const PlacedStages::Rank& sums = placed_->rank[r];
  const bool bare = form.woven || !facts_->count_collectives;
  // The two sends of a group run side by side: at least half of their sum is waited for.
  const double waited = form.woven ? rank_[r].blocked / 2 : rank_[r].blocked;
  return (bare ? sums.work : form.split ? sums.split : sums.fused) * jitter_ + waited;
}

// Until the last gradient of a microbatch has come to rank 0, whose own work it ends.
double StageTraffic::late(const FamilyForm& form, int microbatches, const OrderCounts& order) const {
  double latest = 0;
  for (int r = 0; r < placed_->ranks; ++r) {
    const Rank& rank = rank_[r];
    const double weight = placed_->rank[r].weight * jitter_;
    double tail = rank.tail[at(form.split)];
    if (facts_->blocking) tail -= rank.to_before;  // counted as waiting
    if (facts_->early_gradients && form.whole) tail -= weight;
    latest = std::max(latest, rank.arrive + microbatches * busy(r, form) - order[r].weights_after * weight + tail);
  }
  if (placed_->placement != StagePlacement::Line || !facts_->count_collectives || form.woven) return latest;
  if (!form.split && order.back().in_flight >= microbatches) latest = std::max(latest, phases(microbatches));
  return std::max(latest, in_flight(form, microbatches, order));
}

std::array<double, 4> StageTraffic::bounds(const FamilyForm& form, int microbatches, const OrderCounts& order) const {
  const double m = microbatches;
  std::array<double, 4> longest{};
  if (form.placement == StagePlacement::Opaque) {  // the mean over ranks, for any placement and order
    double work = 0;
    for (const PlacedStages::Rank& rank : placed_->rank) work += rank.work;
    longest.fill(m * work * facts_->stated_work / static_cast<double>(rank_.size()) * jitter_);
    return longest;
  }
  for (int r = 0; r < placed_->ranks; ++r) {
    const Rank& rank = rank_[r];
    const double end = rank.arrive + m * busy(r, form);
    // With one stage all else that the rank runs stands before its last backward or weight gradient, which buckets may overlap.
    const StageCost& own = placed_->table.stages[placed_->stage_of(r, 0)];
    const double last = std::max(own.backward, own.weight_gradient) * jitter_ + (facts_->blocking ? rank.to_before : 0);
    for (std::size_t z = 0; z < longest.size(); ++z) {
      // The first parameters are gathered before anything arrives.
      longest[z] = std::max({longest[z], end + rank.closing[z], (z < 3 ? rank.arrive : 0) + m * rank.data_lane[z]});
      // The host may hide the sums of gradients, but the device has to make them besides the rest of its work.
      const double summed = m * (placed_->rank[r].work + rank.summing[z]) * jitter_;
      longest[z] = std::max(longest[z], rank.arrive + summed + rank.closing[z]);
      if (placed_->chunks == 1) longest[z] = std::max(longest[z], end - last + rank.draining[z]);
    }
  }
  if (order.empty() || order.front().in_flight == 0) return longest;
  const double until_last = late(form, microbatches, order);
  for (std::size_t z = 0; z < longest.size(); ++z) longest[z] = std::max(longest[z], until_last + rank_[0].closing[z]);
  return longest;
}

void activation_peaks(const PlacedStages& placed, const OrderCounts& order, std::vector<double>& peaks) {
  peaks.assign(at(placed.ranks), 0);
  for (int r = 0; at(r) < order.size(); ++r) {
    for (const Moment& moment : order[r].moments) {
      std::int64_t held = 0, waiting = 0, rise = 0;
      for (int c = 0; c < placed.chunks; ++c) {
        const StageCost& stage = placed.stage(r, c);
        held += moment.held[c] * stage.kept;
        waiting = c == 0 ? stage.kept_for_weight : std::min(waiting, stage.kept_for_weight);
      }
      if (moment.forward >= 0) rise = placed.stage(r, moment.forward).forward_rise;
      if (moment.backward >= 0) {
        const StageCost& stage = placed.stage(r, moment.backward);
        rise = std::max(rise, moment.whole ? stage.backward_rise : stage.input_rise);
      }
      peaks[r] = std::max(peaks[r], static_cast<double>(held + moment.weights * waiting + rise));
    }
  }
}

RankMemories memory_peaks(const PlacedStages& placed, const SearchFacts& facts, const PerParameter& per,
                          const std::vector<double>& activations, int microbatches) {
  if (placed.placement == StagePlacement::Opaque) {
    // Every element is somewhere, and before its first gradient all that a microbatch leaves is.
    double state = 0, kept = 0;
    for (const PlacedStages::Rank& rank : placed.rank) state += per.state.always(rank.held);
    for (const StageCost& stage : placed.table.stages) kept += static_cast<double>(stage.kept);
    const double all = state + kept * facts.stated_kept;
    const double mean = static_cast<double>(facts.context) + facts.allocator * all / placed.ranks;
    return {mean, mean};
  }
  double largest = 0, sum = 0;
  for (int r = 0; r < placed.ranks; ++r) {
    const PlacedStages::Rank& rank = placed.rank[r];
    // In the passes, or while the optimizer steps.
    double in_passes = per.state.always(rank.held) + activations[r];
    if (per.zero >= 3 && per.data > 1) in_passes += static_cast<double>(rank.gathered);
    const double bytes = std::max(in_passes, per.state.at_step(rank.held)) +
                         static_cast<double>(rank.buffers) * facts.memory.buffered_microbatches(microbatches);
    const double allocated = static_cast<double>(facts.context) + std::nearbyint(facts.allocator * bytes);
    largest = std::max(largest, allocated);
    sum += allocated;
  }
  return {largest, sum / placed.ranks};
}

}  // namespace panpipe::planner
