// Times and memory of a workload's movable units, run by the code that trains: a stage per unit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "exec/engine/layout.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/parameters.hpp"

namespace panpipe::exec {

// Of one unit, seconds per repetition.
struct UnitSamples {
  std::vector<double> forward, backward, input_gradient, weight_gradient;
};

struct UnitMemory {
  std::int64_t saved = 0;            // made inside and kept for the backward
  std::vector<int> keeps;            // tensors from outside that are kept too, by the unit's first use of them
  std::int64_t kept_for_weight = 0;  // between I and W, tensors from outside included
  std::int64_t temporary = 0;
};

// Every unit as a stage of its own.
Plan plan_of_units(const OperatorGraph& graph);

// Runs of neighbouring units whose parameters, gradients and one microbatch fit into `bytes`, at least one unit each: profiling
// holds one run at a time, so that models larger than memory can be measured.
std::vector<std::pair<int, int>> windows(const OperatorGraph& graph, const Layout& layout, std::int64_t bytes);

class UnitProfiler {
 public:
  // Holds units [first, end) of the layout made from plan_of_units().
  UnitProfiler(const OperatorGraph& graph, const Layout& layout, int first, int end, std::uint64_t seed);

  // Forward through all units of the window and back, once with B and once with I and W. `together` is called before each
  // part: ranks that compute side by side start together.
  void repeat(const std::function<void()>& together, std::vector<UnitSamples>& samples);

  UnitMemory memory(int unit, MemoryAccount& account) const;

  const SeededParameters& parameters() const { return parameters_; }

 private:
  struct Unit {
    int index = 0;
    std::unique_ptr<Stage> stage;
    std::vector<at::Tensor> inputs, output_gradients;
  };
  void forward(Unit& unit, UnitSamples& samples);

  const OperatorGraph& graph_;
  const Layout& layout_;
  std::uint64_t seed_;
  SeededParameters parameters_;
  std::vector<Unit> units_;
};

}  // namespace panpipe::exec
