#include "costmodel/lowering/host_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/cluster/host_path.hpp"

namespace panpipe {
namespace {

void check_one_host(const Lowering& lowering) {
  const std::vector<Device>& devices = lowering.scenario.cluster.devices;
  const auto node = [&](int device) { return devices[static_cast<std::size_t>(device)].node; };
  for (const int device : lowering.plan.devices)
    if (node(device) != node(lowering.plan.devices.front()))
      throw fault_at(lowering.scenario, "offload.parameters",
                     "weights that come for the turn of a stage lie in the memory of one host, and the devices have several",
                     "use one node, or replicas with 'parallel: {zero: 3}'");
}

}  // namespace

HostTraffic::HostTraffic(Lowering& lowering, int rank)
    : ring_(lowering, rank),
      lowering_(lowering),
      rank_(rank),
      row_(lowering.plan.schedule.order[rank]),
      ways_(ways_of_stages(lowering.plan.schedule)),
      brought_(ways_.empty() ? 0 : row_.size(), -1),
      with_gradients_(lowering.stages.size(), 0) {
  chain_of_.resize(lowering.stages.size());
  for (std::size_t c = 0; c < lowering.plan.schedule.chains.size(); ++c)
    for (const int stage : lowering.plan.schedule.chains[c]) chain_of_[stage] = c;
  if (weights_on_host(lowering.scenario, lowering.plan)) {
    check_one_host(lowering);
    turns_ = weight_turns(row_);
  }
  pieces_.assign(turns_.size(), 0);
  last_piece_.assign(turns_.size(), -1);
  last_pass_.assign(turns_.size(), -1);
}

std::int32_t HostTraffic::copy(const Action& action, bool away, Bytes bytes, std::int32_t after, Lane lane) {
  const auto [known, is_new] = programs_.try_emplace({bytes.base(), away}, -1);
  if (is_new) known->second = lowering_.add_plain_program(bytes / rate_of(action, away), {});
  Task task;
  task.kind = away ? TaskKind::Offload : TaskKind::Reload;
  task.lane = lane;
  task.action = action;
  task.program = known->second;
  (away ? task.give : task.take) = bytes;
  return lowering_.add(rank_, task, after);
}

Bandwidth HostTraffic::rate_of(const Action& action, bool away) const {
  const Cluster& cluster = lowering_.scenario.cluster;
  const int device = lowering_.device(rank_);
  const Bandwidth rate = host_copy_bandwidth(cluster, device, away);
  if (rate > Bandwidth(0)) return rate;
  const std::string none = fmt::format("device '{}' has no copy_bandwidth, which ", cluster.type_of(device).name);
  if (!any()) throw InputError(none + to_text(action) + " needs");
  throw fault_at(lowering_.scenario, turns_.empty() ? "schedule" : "offload",
                 none + (turns_.empty() ? "a schedule that leaves activations in the host's memory needs"
                                        : "a model whose weights lie in the host's memory needs"),
                 "state it in the device file");
}

const HostTraffic::Weights& HostTraffic::weights_of(int stage) {
  const auto [known, is_new] = weights_.try_emplace(stage);
  if (is_new) {
    const HeldParameters held = held_parameters(lowering_, {stage});
    known->second = {weight_size(lowering_, held), gradient_size(lowering_, held)};
  }
  return known->second;
}

// What the forward of a microbatch leaves of the stage's units: the inputs of its blocks.
Bytes HostTraffic::parked(const Action& action) const {
  return lowering_.stage(action.stage).passes[lowering_.slice_of(action)][index_of(ActionKind::F)].memory.take;
}

// Up to so many pieces of a turn's weights.
void HostTraffic::bring_weights(std::size_t turn, std::size_t pieces) {
  const WeightTurn& of = turns_[turn];
  if (!of.comes) return;
  const Bytes all = weights_of(of.stage).weights;
  if (all <= Bytes(0)) return;
  const std::int32_t room = of.room_after < 0 ? -1 : last_pass_[of.room_after];
  for (std::size_t& made = pieces_[turn]; made < std::min(pieces, kWeightPieces); ++made) {
    Action action;
    action.kind = ActionKind::Unshard;
    action.stage = of.stage;
    last_piece_[turn] =
        copy(action, false, Bytes(bytes_of_pieces(all.base(), made + 1) - bytes_of_pieces(all.base(), made)), room, Lane::Copy);
  }
}

bool HostTraffic::takes_parked(std::size_t position) const {
  const Action& action = row_[position];
  return !ways_.empty() && action.kind == ActionKind::R && ways_[action.stage] == Way::Back;
}

// The next pass that takes one, if all forwards of its microbatch have run: what is behind it on the lane must not wait for them.
std::size_t HostTraffic::next_taking(std::size_t position) const {
  const Action& now = row_[position];
  if (ways_[now.stage] == Way::Forth) return row_.size();
  std::size_t next = position + 1;
  bool same_turn = true;
  for (; next < row_.size() && !takes_parked(next); ++next) same_turn = same_turn && row_[next].stage == now.stage;
  if (next == row_.size() || (same_turn && row_[next].stage == now.stage)) return next;
  const bool same_round = chain_of_[row_[next].stage] == chain_of_[now.stage] && row_[next].microbatch <= now.microbatch;
  return same_round ? next : row_.size();
}

void HostTraffic::bring_activation(std::size_t position, std::int32_t after) {
  if (position >= row_.size() || brought_[position] >= 0) return;
  Action action = row_[position];
  action.kind = ActionKind::Reload;
  if (const Bytes bytes = parked(row_[position]); bytes > Bytes(0)) {
    brought_[position] = copy(action, false, bytes, after, Lane::Copy);
    // From all stages whose forwards left it; the transfers' file adds them when all ranks have their tasks.
    lowering_.taken_from_host.push_back(brought_[position]);
  }
}

void HostTraffic::before(std::size_t position, std::int32_t pass_before) {
  if (ring_.any()) return ring_.before(position, pass_before);
  std::vector<std::int32_t> awaited;
  if (!turns_.empty()) {
    if (position > turns_[turn_].last) ++turn_;
    if (position == turns_[turn_].first) {
      bring_weights(turn_, kWeightPieces);
      if (last_piece_[turn_] >= 0) awaited.push_back(last_piece_[turn_]);
    }
  }
  if (!ways_.empty()) {
    if (takes_parked(position)) {
      bring_activation(position, pass_before);
      if (brought_[position] >= 0) awaited.push_back(brought_[position]);
    }
    // The next one comes while this pass runs.
    if (row_[position].is_compute()) bring_activation(next_taking(position), pass_before);
  }
  if (!turns_.empty() && turn_ + 1 < turns_.size()) {  // evenly over the passes of the turn
    const WeightTurn& now = turns_[turn_];
    const std::size_t passes = now.last - now.first + 1, begun = position - now.first + 1;
    const bool paced = !ways_.empty() && ways_[now.stage] == Way::Back;
    bring_weights(turn_ + 1, paced ? (begun * kWeightPieces + passes - 1) / passes : kWeightPieces);
  }
  const auto pass = static_cast<std::int32_t>(lowering_.graph.tasks.size());
  for (const std::int32_t copy : awaited) lowering_.waits.push_back({pass, {copy, -1}});
}

void HostTraffic::after(std::size_t position, std::int32_t pass) {
  if (ring_.any()) return ring_.after(position, pass);
  const Action& action = row_[position];
  if (!ways_.empty() && action.kind == ActionKind::F && ways_[action.stage] == Way::Forth) {
    Action away = action;
    away.kind = ActionKind::Offload;
    if (const Bytes bytes = parked(action); bytes > Bytes(0))
      lowering_.task_of(PassSlot::Parked, action.stage, action.microbatch, action.split) =
          copy(away, true, bytes, pass, Lane::Data);
  }
  if (turns_.empty()) return;
  const WeightTurn& turn = turns_[turn_];
  const Weights& held = weights_of(action.stage);
  if (ends_gradient(lowering_, action) && with_gradients_[action.stage] == 0) {
    with_gradients_[action.stage] = 1;
    lowering_.graph.tasks[pass].take += held.gradients;
  }
  if (position != turn.last) return;
  last_pass_[turn_] = pass;
  if (!turn.leaves) return;
  lowering_.graph.tasks[pass].give += held.weights;
  if (with_gradients_[action.stage] == 0 || held.gradients <= Bytes(0)) return;
  with_gradients_[action.stage] = 0;
  Action away;
  away.kind = ActionKind::Offload;
  away.stage = action.stage;
  const std::int32_t gone = copy(away, true, held.gradients, pass, Lane::Data);
  lowering_.last_gradients.resize(static_cast<std::size_t>(lowering_.plan.pipeline), -1);
  lowering_.last_gradients[rank_] = gone;
}

}  // namespace panpipe
