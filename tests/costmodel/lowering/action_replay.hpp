// A plain replay of a task graph on idle links, slow and obvious: the yardstick of the tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::test {

struct Replay {
  bool finished = false;
  std::vector<double> start, end;  // per task, in picoseconds
  double makespan = 0;
};

// Lanes in order; a group starts when all its members' inputs are there and gives its outputs when it ends; collectives over
// several ranks start together.
Replay replay(const TaskGraph& graph);

// Peak of static bytes and effects in lane order of the compute lane: what one device of the rank holds at most.
std::int64_t peak_in_order(const TaskGraph& graph, int rank);
std::int64_t static_bytes(const TaskGraph& graph, int rank);

// The pass of a rank's lane, by its text ("2F0"); -1 when there is none.
int find_task(const TaskGraph& graph, const std::string& action);
double milliseconds_of(const TaskGraph& graph, const std::string& action);

}  // namespace panpipe::test
