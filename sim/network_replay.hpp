// Runs a plan's tasks on a network: counts down dependencies, and starts a timer or flows for whatever has become ready.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/congruence.hpp"
#include "sim/contention.hpp"
#include "sim/flow_backend.hpp"
#include "sim/flow_table.hpp"
#include "sim/task_net.hpp"
#include "sim/unit_runner.hpp"

namespace panpipe::sim {

// What to run: everything that does not change while it runs.
struct ReplayInput {
  const TaskGraph* graph = nullptr;
  const TaskNet* net = nullptr;
  const Folding* folding = nullptr;
  const FlowTable* flows = nullptr;
  std::vector<bool> merged;  // per rank: passes are one timer each
};

// May rank `rank`'s passes be one timer, as far as their order is concerned? (mergeable_ranks() knows about links.) Not when
// copies that may start at different times never wait for each other, nor when two lanes use one ring.
bool merge_keeps_order(const TaskGraph& graph, const Folding& folding, int rank);

struct ReplayRecord {
  // [task or transfer * classes + class], ticks
  std::vector<double> task_start, task_end, transfer_start, transfer_end;
  std::vector<double> waiting;                    // by units: [task * classes + class], as in TaskTimes
  std::vector<UnitCollectiveRecord> collectives;  // by units, of all classes
  std::vector<ResourceUse> uses;
  std::int64_t activities = 0, flows = 0, finished = 0;  // finished: (task, class) pairs
};

// Ends when nothing is under way. With an order that cannot finish, `finished` is less than tasks x classes.
ReplayRecord replay(const ReplayInput& input, FlowBackend& backend);

}  // namespace panpipe::sim
