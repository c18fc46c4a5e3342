// The dependencies between a plan's tasks (lanes, cells and rounds), and an order in which all of them can be computed. The
// estimate and the simulation share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

// Tasks that start together: one task, the members of a group, or the collective tasks of several ranks in one flow, which run in
// parallel.
struct TaskSet {
  std::int32_t first_member = 0, members = 0;  // into OrderNet::members
  bool together = false;                       // the members run in parallel
};

// The end of a task that another one waits for: with `transfer` what that takes comes on top, with `point` it is one inside it.
struct Wait {
  std::int32_t task = -1, transfer = -1, point = -1;
};

class OrderNet {
 public:
  explicit OrderNet(const TaskGraph& graph);

  // Numbers of the task sets in an order in which none depends on a later one. Throws NoAnswer with to_text of the deadlock if
  // the order cannot finish.
  std::vector<std::int32_t> levels() const;
  const std::vector<TaskSet>& task_sets() const { return task_sets_; }
  const std::vector<std::int32_t>& members() const { return members_; }  // tasks, set by set
  std::int32_t set_of(std::int32_t task) const { return set_of_[task]; }
  std::int32_t lane_before(std::int32_t task) const { return lane_before_[task]; }  // -1 = the first
  const std::vector<std::int32_t>& lane_tails() const { return lane_tail_; }        // last task of every lane, -1 = none
  // The receiver's task that must end before a rendezvous transfer can start; -1 if there is none, or without rendezvous.
  std::int32_t receiver_before(const Transfer& transfer) const;
  std::size_t lane_index(const Task& task) const;
  // The task that produces an input.
  std::int32_t producer(const Input& input) const;

  // Calls visit(task, transfer) for every send that a lane awaits before it continues behind the set of this task of it (-1: of
  // none).
  template <class Visit>
  void each_awaited_send(std::int32_t last, Visit visit) const {
    if (sends_of_.empty()) return;
    for (std::int32_t t = last; t >= 0 && set_of(t) == set_of(last); t = lane_before(t))
      for (const std::int32_t send : sends_of_[static_cast<std::size_t>(t)]) visit(t, send);
  }
  // Calls visit(wait) for everything that a task waits for, in its own set too.
  template <class Visit>
  void each_wait(std::int32_t t, Visit visit) const {
    const auto arrival = [&](std::int32_t from, std::int32_t transfer) {
      visit(Wait{from, transfer});
      if (const std::int32_t receiver = receiver_before(graph_.transfers[static_cast<std::size_t>(transfer)]); receiver >= 0)
        visit(Wait{receiver, transfer});
    };
    const std::int32_t before = lane_before(t);
    if (before >= 0) visit(Wait{before});
    if (before >= 0 && set_of(before) != set_of(t)) each_awaited_send(before, arrival);
    const Task& task = graph_.tasks[static_cast<std::size_t>(t)];
    for (std::int32_t i = task.first_input; i < task.first_input + task.inputs; ++i) {
      const Input& input = graph_.inputs[static_cast<std::size_t>(i)];
      const std::int32_t from = producer(input);
      if (from < 0) continue;
      if (input.transfer >= 0)
        arrival(from, input.transfer);
      else
        visit(Wait{from, -1, input.point});
    }
  }

 private:
  void make_lanes();
  void make_task_sets();
  void add_task_set(const std::vector<std::int32_t>& tasks, bool together);
  using Done = std::vector<bool>;  // per set
  bool is_done(std::int32_t task, const Done& done) const { return done[set_of(task)]; }
  std::int32_t lane_head(std::int32_t task, const Done& done) const;
  std::int32_t cause(std::int32_t task, const Done& done) const;
  Deadlock explain(const Done& done) const;

  const TaskGraph& graph_;
  std::vector<std::int32_t> lane_before_, lane_tail_, set_of_, members_;
  std::vector<std::vector<std::int32_t>> sends_of_;  // per task: its transfers that are awaited; empty: none are
  std::vector<TaskSet> task_sets_;
};

}  // namespace panpipe
