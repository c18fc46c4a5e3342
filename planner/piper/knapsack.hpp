// One option per layer: least time within a memory limit, exactly.
#pragma once

#include <limits>
#include <vector>

namespace panpipe::planner::piper {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Option {
  double time = 0;
  double memory = 0;
  int choice = 0;  // what it stands for
};

// Of one layer: those that no other beats in both, fastest first (so memory falls).
using Options = std::vector<Option>;
Options undominated(Options options);

// Corners of the lower convex hull of a layer's options, as steps from one to the next: what a byte costs.
struct HullStep {
  double time = 0;    // more
  double memory = 0;  // less
  double price() const { return time / memory; }
};
std::vector<HullStep> hull_steps(const Options& options);

// The steps of all layers, cheapest byte first, and the bytes that they free together.
struct PricedSteps {
  std::vector<HullStep> steps;
  double memory = 0;
};
PricedSteps steps_by_price(const std::vector<Options>& layers);

struct Picked {
  bool fits = false;
  double time = 0;           // summed in the order of the layers
  std::vector<int> choices;  // of every layer
};

// Dynamic programme over layers with a list of undominated (memory, time) states; a state is dropped when the Lagrangian bound at
// the price of the linear relaxation reaches the incumbent. Exact up to the rounding of sums.
Picked least_time(const std::vector<const Options*>& layers, double memory);

}  // namespace panpipe::planner::piper
