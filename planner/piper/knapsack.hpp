// Chooses one option per layer: the least time within a memory limit, exactly.
#pragma once

#include <limits>
#include <vector>

#include "planner/piper/suffixes.hpp"

namespace panpipe::planner::piper {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Option {
  double time = 0;
  double memory = 0;
  const Choice* choice = nullptr;
};

// The options of one layer that no other beats in both time and memory, fastest first (so memory falls).
using Options = std::vector<Option>;
Options undominated(Options options);

// Steps between the corners of the lower convex hull of a layer's options; they give the price of a byte.
struct HullStep {
  double time = 0;    // added
  double memory = 0;  // saved
  int option = 0;     // at its end
  double price() const { return time / memory; }
};
std::vector<HullStep> hull_steps(const Options& options);

// The prices of a byte at these shares of all bytes that the layers can save by other choices, ascending: the relaxation of a
// stage has its price near one of them.
std::vector<double> prices_at(const std::vector<Options>& layers, const std::vector<double>& shares);

// The least memory of the layers of every suffix, and for each price of a byte their least time + price * memory.
class PricedSums {
 public:
  PricedSums() = default;
  PricedSums(const Suffixes& suffixes, const std::vector<Options>& layers, const std::vector<double>& prices);
  double memory(std::size_t outer, std::size_t inner) const { return of(outer, inner, 0); }
  double priced(std::size_t outer, std::size_t inner, std::size_t price) const { return of(outer, inner, price + 1); }

 private:
  double of(std::size_t outer, std::size_t inner, std::size_t column) const {
    return rows_[outer * width_ + column] - rows_[inner * width_ + column];
  }
  std::size_t width_ = 0;
  std::vector<double> rows_;  // by suffix
};

struct Picked {
  bool fits = false;
  double time = 0;                     // summed in the order of the layers
  std::vector<const Choice*> choices;  // one per layer
};

// Dynamic programme over layers with a list of undominated (memory, time) states. A state is dropped when the Lagrangian bound,
// at the price of the linear relaxation, reaches the incumbent. Exact up to the rounding of sums.
Picked least_time(const std::vector<const Options*>& layers, double memory);

}  // namespace panpipe::planner::piper
