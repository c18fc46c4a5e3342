// The dependencies of a plan's tasks in the form that the event loop counts down. They are the same for every pipeline group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::sim {

inline std::span<const ProgramStep> steps_of(const TaskGraph& graph, const Program& program) {
  return {graph.steps.data() + program.first_step, static_cast<std::size_t>(program.steps)};
}

// A list of numbers per key, all in one array.
class Lists {
 public:
  // Pairs (key, value); values keep their order.
  void assign(std::size_t keys, const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs);
  std::span<const std::int32_t> operator[](std::int32_t key) const {
    const auto k = static_cast<std::size_t>(key);
    return {values_.data() + begin_[k], values_.data() + begin_[k + 1]};
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::int32_t> values_;
};

// The members of a group wait and deliver separately. No count includes the order of the compute lanes, which CellRunner keeps.
struct TaskNet {
  explicit TaskNet(const TaskGraph& graph);

  std::vector<std::int32_t> prerequisites;  // number per task; outside compute lanes it includes the task before
  std::vector<std::int32_t> next_on_lane;   // per task, -1 = last; on the compute lanes per first task of a cell
  Lists successors;                         // per task: tasks that its end may make ready
  // Tasks that wait for a point inside another task.
  struct PointWait {
    std::int32_t point = 0, waiter = 0;
  };
  std::vector<PointWait> point_waits;
  Lists points;                     // per task: indices of the point_waits for its points
  Lists transfers;                  // per task: transfers that its end starts
  Lists consumers;                  // per transfer: the tasks that wait for its arrival
  std::vector<std::int32_t> gate;   // per transfer: the cell after which its lane waits for the arrival, or -1
  std::vector<std::int32_t> gated;  // per task: transfers its lane waits for
  // With rendezvous: the receiver's task that a transfer waits for, and per task the transfers that it may start.
  std::vector<std::int32_t> receiver_before;  // per transfer, -1 = nothing
  Lists taken_after;                          // per task
  // Collectives formed by tasks of several ranks: the round of each task, -1 = only its rank's data group.
  std::vector<std::int32_t> round;
  std::vector<std::vector<std::int32_t>> rounds;
};

}  // namespace panpipe::sim
