// Runs a plan's tasks on a network: counts down dependencies, and starts a timer or flows for each task that becomes ready.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cell_runner.hpp"
#include "sim/congruence.hpp"
#include "sim/contention.hpp"
#include "sim/flow_backend.hpp"
#include "sim/flow_table.hpp"
#include "sim/task_net.hpp"

namespace panpipe::sim {

// The constant input of a run.
struct EventInput {
  const TaskGraph* graph = nullptr;
  const TaskNet* net = nullptr;
  const Folding* folding = nullptr;
  const FlowTable* flows = nullptr;
  std::vector<bool> merged;  // per rank: no other flow uses the links of its tensor rings
  std::vector<bool> timers;  // per task: its cell is one timer
};

struct EventRecord {
  // [task or transfer * classes + class], ticks
  std::vector<double> task_start, task_end, transfer_start, transfer_end;
  std::vector<double> waiting;                // [task * classes + class], as in TaskTimes
  std::vector<CollectiveRecord> collectives;  // inside passes that run step by step, for all classes
  std::vector<ResourceUse> uses;
  std::int64_t activities = 0, flows = 0, finished = 0;  // finished: (task, class) pairs
};

// Ends when no event remains. If the order cannot finish, `finished` is less than tasks x classes.
EventRecord run_events(const EventInput& input, FlowBackend& backend);

}  // namespace panpipe::sim
