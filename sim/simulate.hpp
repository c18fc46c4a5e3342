// Discrete-event simulation of a lowered plan on the cluster's topology, with links shared max-min fairly.
#pragma once

#include <cstdint>
#include <string>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::sim {

enum class Backend : std::uint8_t {
  SimGrid,     // SimGrid's fluid network model
  FlowSolver,  // Panpipe's max-min solver: a check of SimGrid in tests, and the back end of searches
};

Backend backend_named(const std::string& name);  // "simgrid", "flow"; throws InputError for anything else

struct Options {
  Backend backend = Backend::SimGrid;
  bool merge = true;  // run a pass's steps as one timer if no route outside the group uses the group's links
  bool fold = true;   // simulate pipeline groups that behave alike as one
};

struct Statistics {
  std::int64_t activities = 0;  // timers and flows started
  std::int64_t flows = 0;
  int folded_devices = 1;  // number of devices that one simulated device represents
  bool merged = false;
};

// Throws NoAnswer for a deadlock (blocked actions and the cycle), and MachineError if the back end is not in this build.
Timeline simulate(const TaskGraph& graph, const Cluster& cluster, const Options& options = {}, Statistics* statistics = nullptr);

// As searches ask for it, of many plans and from several threads: by the flow solver.
Timeline simulate_for_search(const TaskGraph& graph, const Cluster& cluster);

bool has_backend(Backend backend);
// The reason why the back end is missing; empty if it is available.
std::string why_no_backend(Backend backend);

}  // namespace panpipe::sim
