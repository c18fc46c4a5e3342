#include "planner/piper/front_bounds.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "planner/piper/knapsack.hpp"

namespace panpipe::planner::piper {
namespace {

constexpr double kMostBytes = 24e6;  // of all sums
constexpr int kMostSlots = 64;

// The price of a byte, at a tenth, half and nine tenths of the bytes that the layers can save by other choices.
std::vector<double> typical_prices(const PlanningProblem& problem) {
  std::vector<Options> layers;
  for (const Layer& layer : problem.layers) {
    Options options;
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& c : layer.choices[g])
        options.push_back({c.time * problem.degrees[g], (c.in_flight + c.fixed) * problem.degrees[g], 0});
    layers.push_back(undominated(std::move(options)));
  }
  const auto [steps, total] = steps_by_price(layers);
  std::vector<double> prices;
  double passed = 0;
  for (const HullStep& step : steps) {
    passed += step.memory;
    for (const double share : {0.1, 0.5, 0.9})
      if (passed >= share * total && passed - step.memory < share * total && (prices.empty() || step.price() > prices.back()))
        prices.push_back(step.price());
  }
  return prices;
}

}  // namespace

FrontBounds::FrontBounds(const PlanningProblem& problem, const Suffixes& suffixes)
    : suffixes_(suffixes.size()), memory_(problem.memory), total_devices_(problem.devices), prices_(typical_prices(problem)) {
  const int most = std::min(problem.devices, problem.microbatches);
  const double row = 8.0 * static_cast<double>(suffixes_ * (prices_.size() + 1));
  const int slots = std::clamp(static_cast<int>(kMostBytes / row), 1, kMostSlots);
  step_ = (most + slots) / slots;
  sums_.assign(at(most / step_ + 1) * suffixes_ * (prices_.size() + 1), 0);
  for (int slot = 0; slot <= most / step_; ++slot) fill(problem, suffixes, at(slot), slot * step_);
}

void FrontBounds::fill(const PlanningProblem& problem, const Suffixes& suffixes, std::size_t slot, int replicas) {
  const std::size_t width = prices_.size() + 1;
  std::vector<double> least(problem.layers.size() * width, INFINITY);
  for (std::size_t layer = 0; layer < problem.layers.size(); ++layer)
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& c : problem.layers[layer].choices[g]) {
        const double bytes = c.in_flight * (replicas + 1) + c.fixed;
        for (std::size_t k = 0; k < width; ++k) {
          const double cost = k < prices_.size() ? c.time + prices_[k] * bytes : bytes;
          least[layer * width + k] = std::min(least[layer * width + k], problem.degrees[g] * cost);
        }
      }
  double* rows = &sums_[slot * suffixes_ * width];
  for (std::size_t set = 1; set < suffixes_; ++set)
    for (std::size_t k = 0; k < width; ++k)
      rows[set * width + k] = rows[suffixes.parent(set) * width + k] + least[at(suffixes.added(set)) * width + k];
}

double FrontBounds::devices(std::size_t suffix, int replicas, double limit) const {
  const std::size_t slot = at(replicas / step_);
  double most = need(suffix, slot, prices_.size()) / memory_;
  if (std::isinf(limit)) return most;
  for (std::size_t k = 0; k < prices_.size(); ++k) most = std::max(most, need(suffix, slot, k) / (limit + prices_[k] * memory_));
  return most;
}

double FrontBounds::least_limit() const {
  if (need(0, 0, prices_.size()) > memory_ * total_devices_) return INFINITY;
  double limit = 0;
  for (std::size_t k = 0; k < prices_.size(); ++k) limit = std::max(limit, need(0, 0, k) / total_devices_ - prices_[k] * memory_);
  return limit;
}

}  // namespace panpipe::planner::piper
