// The dependencies of a plan's tasks in the form the event loop counts down: the same for every pipeline group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::sim {

// Numbers of things per key, stored in one array.
class Lists {
 public:
  // pairs (key, value); values keep their order
  void assign(std::size_t keys, const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs);
  std::span<const std::int32_t> operator[](std::int32_t key) const {
    const auto k = static_cast<std::size_t>(key);
    return {values_.data() + begin_[k], values_.data() + begin_[k + 1]};
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::int32_t> values_;
};

// The members of a group wait and deliver each for itself; no count includes the order of the compute lanes (CellRunner keeps
// it).
struct TaskNet {
  explicit TaskNet(const TaskGraph& graph);

  std::vector<std::int32_t> prerequisites;  // per task; off the compute lanes with the task before
  std::vector<std::int32_t> next_on_lane;   // per task, -1 = last; on the compute lanes per first task of a cell
  Lists successors;                         // per task whose end makes them ready
  // Tasks that wait for a point inside another.
  struct PointWait {
    std::int32_t point = 0, waiter = 0;
  };
  std::vector<PointWait> point_waits;
  Lists points;                     // per task: those of point_waits that wait for a point of it
  Lists transfers;                  // per task whose end starts them
  Lists consumers;                  // per transfer: the tasks that wait for its arrival
  std::vector<std::int32_t> gate;   // per transfer: the cell after which its lane waits for the arrival, or -1
  std::vector<std::int32_t> gated;  // per task: transfers its lane waits for
  // With a rendezvous: what a transfer waits for besides its producer, and per task the transfers that may start behind it.
  std::vector<std::int32_t> receiver_before;  // per transfer, -1 = nothing
  Lists taken_after;                          // per task
  // Collectives that several ranks' tasks make together: the round of each task, -1 = its rank's data group alone.
  std::vector<std::int32_t> round;
  std::vector<std::vector<std::int32_t>> rounds;
};

}  // namespace panpipe::sim
