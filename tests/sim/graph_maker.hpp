// Small clusters and task graphs written by hand, for tests and benchmarks of the simulation.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::test {

// A cluster whose routes are listed pair by pair.
class ClusterMaker {
 public:
  explicit ClusterMaker(int devices);
  int resource(const std::string& name, Bandwidth bandwidth);
  void route(int from, int to, std::vector<Hop> hops, Duration latency = Duration(0));
  // A route that is a pure delay.
  void delay(int from, int to, Duration time);
  // A route of 100 GB/s that no other shares.
  void path_of_its_own(int from, int to);
  Cluster make() const;

 private:
  Cluster cluster_;
  std::map<std::pair<int, int>, Route> routes_;
};

// Every pair of devices has one.
Cluster paths_of_their_own(int devices);

struct TaskId {
  int rank = 0, index = 0;  // index among the rank's tasks
};

// Tasks are added rank by rank in any order; make() puts them in the graph's order.
class GraphMaker {
 public:
  GraphMaker(int ranks, int tensor = 1, int data = 1);

  // Alone it takes latency + bytes / rate.
  int flow(Bytes wire_bytes, Bandwidth rate, Duration latency = Duration(0));
  int flow_between(Bytes wire_bytes, Bandwidth rate, std::vector<std::int32_t> ranks);
  int link(int from_rank, int to_rank, Bytes bytes, Bandwidth rate, Duration latency = Duration(0));
  // `free`: overlaps the collective before it.
  static ProgramStep compute(Duration time, bool free = false);
  ProgramStep collective(int flow) const;
  int program(const std::vector<ProgramStep>& steps, double overlap_loss = 0);
  // A group of that many passes.
  int cell(const std::vector<ProgramStep>& steps, int members, bool all_inputs = false, bool atomic = false,
           double overlap_loss = 0);
  TaskGraph& graph() { return graph_; }

  TaskId pass(int rank, int program, int microbatch = 0);
  TaskId task(int rank, Task task);
  TaskId data_collective(int rank, int flow);
  void wait_for(TaskId task, TaskId producer);
  int transfer(TaskId producer, TaskId consumer, int link);
  Task& at(TaskId id) { return tasks_[id.rank][id.index]; }

  TaskGraph make() const;

 private:
  struct Edge {
    TaskId from, to;
    int link = -1;
  };
  TaskGraph graph_;
  std::vector<std::vector<Task>> tasks_;
  std::vector<Edge> edges_;
};

}  // namespace panpipe::test
