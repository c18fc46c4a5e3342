#include "costmodel/lowering/ring_traffic.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "costmodel/plan/streamed_weights.hpp"

namespace panpipe {
namespace {

void check_ring(const Lowering& lowering) {
  if (lowering.plan.replicas() > 1)
    throw fault_at(lowering.scenario, "parallel.data", "weights that go round the ranks are predicted without replicas",
                   "use parallel.data 1: the ranks of the pipeline run different microbatches");
  if (lowering.scenario.offload.any())
    throw fault_at(lowering.scenario, "offload", "weights that go round the ranks are predicted with all state on the devices",
                   "leave offload out, or state 'offload: {optimizer: cpu, parameters: cpu}': then they come from the host");
}

// The largest stage sets the pace: all ranks send at once.
std::pair<Bytes, Bytes> largest_of_chain(const Lowering& lowering) {
  Bytes weights(0), gradients(0);
  for (const int stage : lowering.plan.schedule.chains.front()) {
    const HeldParameters held = held_parameters(lowering, {stage});
    weights = std::max(weights, weight_size(lowering, held));
    gradients = std::max(gradients, gradient_size(lowering, held));
  }
  return {weights, gradients};
}

}  // namespace

HeldParameters home_stage(const Lowering& lowering) {
  HeldParameters most;
  for (const int stage : lowering.plan.schedule.chains.front())
    if (const HeldParameters held = held_parameters(lowering, {stage}); held.elements() > most.elements()) most = held;
  return most;
}

Bytes travelling_buffers(const Lowering& lowering) {
  const auto [weights, gradients] = largest_of_chain(lowering);
  return 4 * weights + 2 * gradients;
}

RingTraffic::RingTraffic(Lowering& lowering, int rank) : lowering_(lowering), rank_(rank) {
  if (!weights_go_round(lowering.scenario, lowering.plan)) return;
  check_ring(lowering);
  const Schedule& schedule = lowering.plan.schedule;
  turns_ = {schedule.ranks, schedule.microbatches / schedule.ranks};
  int forwards = 0, backwards = 0;
  for (const Action& action : schedule.order[at(rank)]) {
    turn_of_.push_back(action.kind == ActionKind::F   ? turns_.forward(rank, forwards++)
                       : starts_backward(action.kind) ? turns_.backward(rank, backwards++)
                                                      : -1);
    if (turn_of_.back() >= 0) last_ = turn_of_.size() - 1;
  }
  forth_.assign(at(turns_.all() + 1), -1);
  back_ = forth_;
  if (!lowering.ring_flows.empty()) return;
  const auto [weights, gradients] = largest_of_chain(lowering);
  for (const Bytes bytes : {weights, weights, gradients})
    lowering.ring_flows.push_back(lowering.add_pipeline_flow(CollectiveKind::SendReceive, bytes));
}

// Of this rank's chain: the one whose weights the rank has in the nth turn of forwards, or of backwards.
int RingTraffic::stage_of(bool forward, int nth) const {
  const int ranks = turns_.ranks, step = ((nth - rank_) % ranks + ranks) % ranks;
  return lowering_.plan.schedule.chains[at(rank_)][at(forward ? step : ranks - 1 - step)];
}

std::int32_t RingTraffic::add(Hop hop, ActionKind kind, int stage, std::int32_t after) {
  return lowering_.add_collective(rank_, kind, stage, lowering_.ring_flows[at(hop)], after);
}

// Begins the turns up to this one. In every turn a rank sends on what it has, whether it computes or not. Its own stage's weights
// need no exchange.
void RingTraffic::advance(int turn, std::int32_t pass_before) {
  const int ranks = turns_.ranks, length = turns_.length();
  while (turn_ < turn) {
    if (const int nth = turn_ - ranks; turn_ >= 0 && nth >= 0 && nth < length) {
      const std::int32_t after = std::exchange(last_backward_, -1);
      lowering_.last_gradients[at(rank_)] =
          add(Sum, ActionKind::ReduceGrad, stage_of(false, nth), after >= 0 ? after : pass_before);
    }
    const int next = ++turn_ + 1;
    if (const int nth = next - ranks; nth >= 1 && nth < length)
      back_[at(next)] = add(Back, ActionKind::Unshard, stage_of(false, nth), pass_before);
    if (next < length && next % ranks != 0) forth_[at(next)] = add(Forth, ActionKind::Unshard, stage_of(true, next), pass_before);
  }
}

void RingTraffic::before(std::size_t position, std::int32_t pass_before) {
  const int turn = turn_of_[position];
  if (turn < 0) return;
  lowering_.last_gradients.resize(at(turns_.ranks), -1);
  advance(turn, pass_before);
  const bool forward = lowering_.plan.schedule.order[at(rank_)][position].kind == ActionKind::F;
  const std::int32_t hop = (forward ? forth_ : back_)[at(turn)];
  if (hop >= 0) lowering_.waits.push_back({static_cast<std::int32_t>(lowering_.graph.tasks.size()), {hop, -1}});
}

void RingTraffic::after(std::size_t position, std::int32_t pass) {
  if (lowering_.plan.schedule.order[at(rank_)][position].kind != ActionKind::F) last_backward_ = pass;
  if (position == last_) advance(turns_.all(), pass);
}

void share_ring_flows(Lowering& lowering) {
  const std::vector<std::int32_t> ranks = lowering.all_ranks();
  const std::vector<std::int32_t> reversed(ranks.rbegin(), ranks.rend());
  for (std::size_t hop = 0; hop < lowering.ring_flows.size(); ++hop)
    lowering.graph.cross_rank_flows.push_back({lowering.ring_flows[hop], hop == RingTraffic::Back ? reversed : ranks});
}

}  // namespace panpipe
