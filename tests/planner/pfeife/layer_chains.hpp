// Experiments over measured layers, made by a few numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "planner/planner.hpp"

namespace panpipe::test {

struct Layer {
  double forward_ms = 1;
  std::int64_t saved = 0, temporary = 0, parameters = 0;
};

struct LayersCase {
  std::vector<Layer> layers;
  std::vector<std::tuple<int, int, std::int64_t>> edges;  // empty: each layer feeds the next 1 B
  int devices = 2, microbatches = 4;
  std::int64_t memory = 1LL << 44;
  std::string usable = "100 %", link = "{latency: 0 s, bandwidth: unlimited}";
  double backward_ratio = 2;                 // given as `backward`; negative: as two gradients of half each
  std::string extra = "schedule: pfeife\n";  // further keys of the scenario
};

std::unique_ptr<Experiment> experiment_of(const LayersCase& made);
planner::Answer plan_pfeife(const Experiment& experiment, std::size_t candidates = 5, int threads = 1);
double metric(const planner::Candidate& candidate, const std::string& name);

}  // namespace panpipe::test
