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

 private:
  void make_lanes();
  void make_task_sets();
  void add_task_set(const std::vector<std::int32_t>& tasks, bool together);
  template <class Visit>
  void each_predecessor(std::size_t set, Visit visit) const;
  using Done = std::vector<bool>;  // per set
  bool is_done(std::int32_t task, const Done& done) const { return done[set_of(task)]; }
  std::int32_t lane_head(std::int32_t task, const Done& done) const;
  std::int32_t cause(std::int32_t task, const Done& done) const;
  Deadlock explain(const Done& done) const;

  const TaskGraph& graph_;
  std::vector<std::int32_t> lane_before_, lane_tail_, set_of_, members_;
  std::vector<std::vector<std::int32_t>> sends_of_;  // rendezvous: per task, its transfers
  std::vector<TaskSet> task_sets_;
};

}  // namespace panpipe
