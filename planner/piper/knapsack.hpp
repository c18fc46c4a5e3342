// Chooses one option per layer: the least time within a memory limit, exactly.
#pragma once

#include <limits>
#include <vector>

namespace panpipe::planner::piper {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Option {
  double time = 0;
  double memory = 0;
  int choice = 0;  // the caller's index of the option
};

// The options of one layer that no other beats in both time and memory, fastest first (so memory falls).
using Options = std::vector<Option>;
Options undominated(Options options);

// Steps between the corners of the lower convex hull of a layer's options; they give the price of a byte.
struct HullStep {
  double time = 0;    // added
  double memory = 0;  // saved
  double price() const { return time / memory; }
};
std::vector<HullStep> hull_steps(const Options& options);

// The steps of all layers, lowest price first, and the total bytes that they save.
struct PricedSteps {
  std::vector<HullStep> steps;
  double memory = 0;
};
PricedSteps steps_by_price(const std::vector<Options>& layers);

struct Picked {
  bool fits = false;
  double time = 0;           // summed in the order of the layers
  std::vector<int> choices;  // one per layer
};

// Dynamic programme over layers with a list of undominated (memory, time) states. A state is dropped when the Lagrangian bound,
// at the price of the linear relaxation, reaches the incumbent. Exact up to the rounding of sums.
Picked least_time(const std::vector<const Options*>& layers, double memory);

}  // namespace panpipe::planner::piper
