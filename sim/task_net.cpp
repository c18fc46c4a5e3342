#include "sim/task_net.hpp"

#include <algorithm>
#include <map>

namespace panpipe::sim {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

void Lists::assign(std::size_t keys, const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) {
  begin_.assign(keys + 1, 0);
  values_.resize(pairs.size());
  for (const auto& pair : pairs) ++begin_[at(pair.first) + 1];
  for (std::size_t k = 0; k < keys; ++k) begin_[k + 1] += begin_[k];
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (const auto& pair : pairs) values_[next[at(pair.first)]++] = pair.second;
}

TaskNet::TaskNet(const TaskGraph& graph) {
  const std::size_t tasks = graph.tasks.size();
  prerequisites.assign(tasks, 0);
  next_on_lane.assign(tasks, -1);
  gate.assign(graph.transfers.size(), -1);
  gated.assign(tasks, 0);
  round.assign(tasks, -1);
  receiver_before.assign(graph.transfers.size(), -1);

  std::vector<std::int32_t> leader(tasks), last(tasks);
  for (std::size_t t = 0; t < tasks;) {
    const std::size_t size = std::max<std::size_t>(1, graph.tasks[t].group_size), end = std::min(tasks, t + size);
    for (std::size_t k = t; k < end; ++k) {
      leader[k] = static_cast<std::int32_t>(t);
      last[k] = static_cast<std::int32_t>(end - 1);
    }
    t = end;
  }
  std::vector<std::int32_t> lane_tail(at(graph.ranks) * kLanes, -1);
  for (std::size_t t = 0; t < tasks; ++t) {
    const Task& task = graph.tasks[t];
    std::int32_t& tail = lane_tail[at(task.rank) * kLanes + static_cast<std::size_t>(task.lane)];
    const bool by_units = graph.by_units && task.lane == Lane::Compute;
    if (tail >= 0 && by_units) {
      if (leader[t] == static_cast<std::int32_t>(t)) next_on_lane[at(leader[at(tail)])] = static_cast<std::int32_t>(t);
    } else if (tail >= 0) {
      next_on_lane[at(tail)] = static_cast<std::int32_t>(t);
      ++prerequisites[t];
    }
    tail = static_cast<std::int32_t>(t);
  }

  std::vector<std::pair<std::int32_t, std::int32_t>> after, sent, received, taken;
  for (std::size_t t = 0; t < tasks; ++t) {
    const Task& task = graph.tasks[t];
    for (std::int32_t i = 0; i < task.inputs; ++i) {
      const Input& input = graph.inputs[at(task.first_input + i)];
      const std::int32_t from = input.transfer >= 0 ? graph.transfers[at(input.transfer)].producer : input.task;
      if (from < 0 || leader[at(from)] == leader[t]) continue;
      const std::int32_t waiter = graph.by_units ? static_cast<std::int32_t>(t) : leader[t];
      ++prerequisites[at(waiter)];
      if (input.transfer >= 0) {
        received.emplace_back(input.transfer, waiter);
      } else {
        after.emplace_back(last[at(from)], waiter);
      }
    }
  }
  for (std::size_t i = 0; i < graph.transfers.size(); ++i) {
    const std::int32_t from = graph.transfers[i].producer;
    sent.emplace_back(graph.by_units ? from : last[at(from)], static_cast<std::int32_t>(i));
    if (graph.rendezvous) receiver_before[i] = graph.transfers[i].taken_after;
    if (receiver_before[i] >= 0) taken.emplace_back(receiver_before[i], static_cast<std::int32_t>(i));
    if (!graph.tasks[at(from)].waits_for_sends) continue;
    gate[i] = graph.by_units ? leader[at(from)] : last[at(from)];
    ++gated[at(gate[i])];
  }
  successors.assign(tasks, after);
  transfers.assign(tasks, sent);
  consumers.assign(graph.transfers.size(), received);
  taken_after.assign(tasks, taken);

  std::map<std::pair<std::int32_t, std::size_t>, std::int32_t> round_of;  // (flow, times) -> round
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> times;     // (flow, rank) -> times seen
  for (std::size_t t = 0; t < tasks && !graph.cross_rank_flows.empty(); ++t) {
    const Task& task = graph.tasks[t];
    const bool between =
        task.kind == TaskKind::Collective && std::any_of(graph.cross_rank_flows.begin(), graph.cross_rank_flows.end(),
                                                         [&](const auto& cross) { return cross.flow == task.flow; });
    if (!between) continue;
    const std::size_t time = times[{task.flow, task.rank}]++;
    const auto [entry, is_new] = round_of.try_emplace({task.flow, time}, static_cast<std::int32_t>(rounds.size()));
    if (is_new) rounds.emplace_back();
    round[t] = entry->second;
    rounds[at(entry->second)].push_back(static_cast<std::int32_t>(t));
  }
}

}  // namespace panpipe::sim
