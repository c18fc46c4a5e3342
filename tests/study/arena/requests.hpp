// What is asked of the arena in tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/simulate.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::study {

inline Engine simulated_by(sim::Backend backend) {
  return
      [backend](const TaskGraph& graph, const Cluster& cluster) { return sim::simulate(graph, cluster, {.backend = backend}); };
}

inline ArenaRequest request_of(std::vector<Entrant> entrants, int ranks, int microbatches, const std::string& ratio = "even") {
  ArenaRequest request;
  request.entrants = std::move(entrants);
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.ratios = {read_cost_ratio(ratio)};
  request.simulate = simulated_by(sim::Backend::FlowSolver);
  return request;
}

inline Judged judged_alone(const std::string& text, int ranks, int microbatches, const std::string& ratio = "even") {
  return judge(request_of({read_entrant(text)}, ranks, microbatches, ratio)).rounds[0].judged[0];
}

}  // namespace panpipe::study
