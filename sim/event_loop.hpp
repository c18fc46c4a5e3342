// Runs a plan's tasks on a network: counts down dependencies, and starts a timer or flows for whatever has become ready.
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

// What to run: everything that does not change while it runs.
struct EventInput {
  const TaskGraph* graph = nullptr;
  const TaskNet* net = nullptr;
  const Folding* folding = nullptr;
  const FlowTable* flows = nullptr;
  std::vector<bool> merged;  // per rank: nobody else uses its tensor rings' links
  std::vector<bool> timers;  // per task: its cell is one timer
};

struct EventRecord {
  // [task or transfer * classes + class], ticks
  std::vector<double> task_start, task_end, transfer_start, transfer_end;
  std::vector<double> waiting;                // [task * classes + class], as in TaskTimes
  std::vector<CollectiveRecord> collectives;  // inside passes that run step by step, of all classes
  std::vector<ResourceUse> uses;
  std::int64_t activities = 0, flows = 0, finished = 0;  // finished: (task, class) pairs
};

// Ends when nothing is under way. With an order that cannot finish, `finished` is less than tasks x classes.
EventRecord run_events(const EventInput& input, FlowBackend& backend);

}  // namespace panpipe::sim
