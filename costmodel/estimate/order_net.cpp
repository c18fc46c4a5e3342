#include "costmodel/estimate/order_net.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/index.hpp"
#include "schedule/deadlock.hpp"

namespace panpipe {
OrderNet::OrderNet(const TaskGraph& graph) : graph_(graph) {
  make_lanes();
  make_task_sets();
}

std::size_t OrderNet::lane_index(const Task& task) const { return at(task.rank) * kLanes + static_cast<std::size_t>(task.lane); }

std::int32_t OrderNet::producer(const Input& input) const {
  return input.transfer >= 0 ? graph_.transfers[input.transfer].producer : input.task;
}

std::int32_t OrderNet::receiver_before(const Transfer& transfer) const { return graph_.rendezvous ? transfer.taken_after : -1; }

void OrderNet::make_lanes() {
  lane_before_.assign(graph_.tasks.size(), -1);
  lane_tail_.assign(at(graph_.ranks) * kLanes, -1);
  for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
    std::int32_t& tail = lane_tail_[lane_index(graph_.tasks[t])];
    lane_before_[t] = tail;
    tail = static_cast<std::int32_t>(t);
  }
  if (std::none_of(graph_.tasks.begin(), graph_.tasks.end(), [](const Task& task) { return task.waits_for_sends; })) return;
  sends_of_.resize(graph_.tasks.size());
  for (std::size_t i = 0; i < graph_.transfers.size(); ++i)
    if (const std::int32_t from = graph_.transfers[i].producer; graph_.tasks[from].waits_for_sends)
      sends_of_[from].push_back(static_cast<std::int32_t>(i));
}

void OrderNet::make_task_sets() {
  set_of_.assign(graph_.tasks.size(), -1);
  members_.reserve(graph_.tasks.size());
  std::map<std::int32_t, std::vector<std::vector<std::int32_t>>> shared;  // flow -> per round: its tasks
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> rounds;    // (flow, rank) -> times seen
  for (const auto& flow : graph_.cross_rank_flows) shared[flow.flow];
  std::vector<std::int32_t> members;
  for (std::size_t t = 0; t < graph_.tasks.size();) {
    const Task& task = graph_.tasks[t];
    const auto found = task.kind == TaskKind::Collective ? shared.find(task.flow) : shared.end();
    if (found != shared.end()) {
      const std::size_t round = rounds[{task.flow, task.rank}]++;
      if (found->second.size() <= round) found->second.resize(round + 1);
      found->second[round].push_back(static_cast<std::int32_t>(t++));
      continue;
    }
    const std::size_t size = std::max<std::size_t>(1, task.group_size);
    members.clear();
    for (std::size_t k = 0; k < size && t + k < graph_.tasks.size(); ++k) members.push_back(static_cast<std::int32_t>(t + k));
    add_task_set(members, false);
    t += size;
  }
  for (const auto& [flow, tasks_of_rounds] : shared) {
    for (const auto& tasks : tasks_of_rounds) add_task_set(tasks, true);
  }
}

void OrderNet::add_task_set(const std::vector<std::int32_t>& tasks, bool together) {
  TaskSet set;
  set.first_member = static_cast<std::int32_t>(members_.size());
  set.members = static_cast<std::int32_t>(tasks.size());
  set.together = together;
  for (const std::int32_t t : tasks) {
    set_of_[t] = static_cast<std::int32_t>(task_sets_.size());
    members_.push_back(t);
  }
  task_sets_.push_back(set);
}

std::vector<std::int32_t> OrderNet::levels() const {
  std::vector<std::int32_t> waiting_for(task_sets_.size(), 0), first(task_sets_.size() + 1, 0);
  const auto each_edge = [&](auto visit) {
    for (std::size_t m = 0; m < members_.size(); ++m)
      each_wait(members_[m], [&, b = at(set_of(members_[m]))](const Wait& wait) {
        if (at(set_of(wait.task)) != b) visit(at(set_of(wait.task)), b);
      });
  };
  each_edge([&](std::size_t before, std::size_t b) {
    ++first[before + 1];
    ++waiting_for[b];
  });
  for (std::size_t b = 0; b < task_sets_.size(); ++b) first[b + 1] += first[b];
  std::vector<std::int32_t> successors(at(first.back())), next(first.begin(), first.end() - 1);
  each_edge([&](std::size_t before, std::size_t b) { successors[next[before]++] = static_cast<std::int32_t>(b); });

  Done done(task_sets_.size(), false);
  std::vector<std::int32_t> order;
  order.reserve(task_sets_.size());
  for (std::size_t b = 0; b < task_sets_.size(); ++b)
    if (waiting_for[b] == 0) order.push_back(static_cast<std::int32_t>(b));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t b = at(order[i]);
    done[b] = true;
    for (std::int32_t k = first[b]; k < first[b + 1]; ++k)
      if (--waiting_for[successors[k]] == 0) order.push_back(successors[k]);
  }
  if (order.size() < task_sets_.size()) throw NoAnswer(to_text(explain(done), graph_));
  return order;
}

// The first task of this one's lane that is not done.
std::int32_t OrderNet::lane_head(std::int32_t task, const Done& done) const {
  while (lane_before_[task] >= 0 && !is_done(lane_before_[task], done)) task = lane_before_[task];
  return task;
}

// The event that a blocked task waits for: the head of its lane if that is in another set, else a missing input of its set, else
// a receiver that has not started, else (for tasks that run in parallel) a partner that is blocked behind its lane's head.
std::int32_t OrderNet::cause(std::int32_t task, const Done& done) const {
  const std::int32_t head = lane_head(task, done);
  if (set_of_[head] != set_of_[task]) return head;
  const TaskSet& set = task_sets_[set_of_[task]];
  for (std::int32_t k = 0; k < set.members; ++k) {
    const Task& member = graph_.tasks[members_[set.first_member + k]];
    for (std::int32_t i = 0; i < member.inputs; ++i) {
      const std::int32_t from = producer(graph_.inputs[member.first_input + i]);
      if (from >= 0 && !is_done(from, done) && set_of_[from] != set_of_[task]) return from;
    }
  }
  std::int32_t not_started = -1;
  each_awaited_send(lane_before_[head], [&](std::int32_t, std::int32_t send) {
    const std::int32_t receiver = receiver_before(graph_.transfers[send]);
    if (not_started < 0 && receiver >= 0 && !is_done(receiver, done)) not_started = receiver;
  });
  if (not_started >= 0) return not_started;
  for (std::int32_t k = 0; k < set.members; ++k) {
    const std::int32_t partner = members_[set.first_member + k];
    if (set_of_[lane_head(partner, done)] != set_of_[task]) return partner;
  }
  return -1;
}

Deadlock OrderNet::explain(const Done& done) const {
  Deadlock deadlock;
  std::int32_t start = -1;
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    std::int32_t head = lane_tail_[at(rank) * kLanes + static_cast<std::size_t>(Lane::Compute)];
    if (head >= 0) head = is_done(head, done) ? -1 : lane_head(head, done);
    deadlock.blocked.push_back(head);
    if (start < 0) start = head;
  }
  for (std::size_t t = 0; start < 0 && t < graph_.tasks.size(); ++t) {
    if (!is_done(static_cast<std::int32_t>(t), done)) start = static_cast<std::int32_t>(t);
  }
  deadlock.cycle = waiting_cycle(start, [&](std::int32_t task) { return cause(task, done); });
  return deadlock;
}

}  // namespace panpipe
