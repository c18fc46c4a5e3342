#include "sim/task_net.hpp"

#include "base/index.hpp"
#include "costmodel/estimate/order_net.hpp"

namespace panpipe::sim {
void Lists::assign(std::size_t keys, const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) {
  begin_.assign(keys + 1, 0);
  values_.resize(pairs.size());
  for (const auto& pair : pairs) ++begin_[at(pair.first) + 1];
  for (std::size_t k = 0; k < keys; ++k) begin_[k + 1] += begin_[k];
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (const auto& pair : pairs) values_[next[pair.first]++] = pair.second;
}

namespace {

// Per task, the first and the last member of its cell; the members of a round each have one of their own.
struct Cells {
  std::vector<std::int32_t> leader, last;

  Cells(const OrderNet& net, std::size_t tasks) : leader(tasks), last(tasks) {
    for (const TaskSet& set : net.task_sets()) {
      const auto first = net.members().begin() + set.first_member, end = first + set.members;
      for (auto member = first; member != end; ++member) {
        leader[*member] = set.together ? *member : *first;
        last[*member] = set.together ? *member : *(end - 1);
      }
    }
  }
};

}  // namespace

TaskNet::TaskNet(const TaskGraph& graph) {
  const std::size_t tasks = graph.tasks.size();
  prerequisites.assign(tasks, 0);
  next_on_lane.assign(tasks, -1);
  gate.assign(graph.transfers.size(), -1);
  gated.assign(tasks, 0);
  round.assign(tasks, -1);
  receiver_before.assign(graph.transfers.size(), -1);

  const OrderNet net(graph);
  const auto [leader, last] = Cells(net, tasks);
  for (const TaskSet& set : net.task_sets()) {
    if (!set.together) continue;
    const auto first = net.members().begin() + set.first_member;
    rounds.emplace_back(first, first + set.members);
    for (const std::int32_t member : rounds.back()) round[member] = static_cast<std::int32_t>(rounds.size()) - 1;
  }
  for (std::size_t t = 0; t < tasks; ++t) {
    const std::int32_t before = net.lane_before(static_cast<std::int32_t>(t));
    if (before < 0) continue;
    if (graph.tasks[t].lane == Lane::Compute) {
      if (leader[t] == static_cast<std::int32_t>(t)) next_on_lane[leader[before]] = static_cast<std::int32_t>(t);
    } else {
      next_on_lane[before] = static_cast<std::int32_t>(t);
      ++prerequisites[t];
    }
  }

  std::vector<std::pair<std::int32_t, std::int32_t>> after, sent, received, taken, inside;
  for (std::size_t t = 0; t < tasks; ++t) {
    const Task& task = graph.tasks[t];
    for (std::int32_t i = 0; i < task.inputs; ++i) {
      const Input& input = graph.inputs[task.first_input + i];
      const std::int32_t from = net.producer(input);
      if (from < 0 || leader[from] == leader[t]) continue;
      const auto waiter = static_cast<std::int32_t>(t);
      ++prerequisites[t];
      if (input.transfer >= 0) {
        received.emplace_back(input.transfer, waiter);
      } else if (input.point >= 0) {
        inside.emplace_back(from, static_cast<std::int32_t>(point_waits.size()));
        point_waits.push_back({input.point, waiter});
      } else {
        after.emplace_back(last[from], waiter);
      }
    }
  }
  for (std::size_t i = 0; i < graph.transfers.size(); ++i) {
    const std::int32_t from = graph.transfers[i].producer;
    sent.emplace_back(from, static_cast<std::int32_t>(i));
    receiver_before[i] = net.receiver_before(graph.transfers[i]);
    if (receiver_before[i] >= 0) taken.emplace_back(receiver_before[i], static_cast<std::int32_t>(i));
    if (!graph.tasks[from].waits_for_sends) continue;
    gate[i] = leader[from];
    ++gated[gate[i]];
  }
  successors.assign(tasks, after);
  points.assign(tasks, inside);
  transfers.assign(tasks, sent);
  consumers.assign(graph.transfers.size(), received);
  taken_after.assign(tasks, taken);
}

}  // namespace panpipe::sim
