#include "planner/piper/front_bounds.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe::planner::piper {
namespace {

constexpr double kMostBytes = 24e6;  // of all sums
constexpr int kMostSlots = 64;

// All choices of each layer on the devices of any degree, with this number of microbatches in flight.
void put_on_all_devices(const PlanningProblem& problem, int in_flight, std::vector<Options>& layers) {
  layers.resize(problem.layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].clear();
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& c : problem.layers[i].choices[g])
        layers[i].push_back({c.time * problem.degrees[g], (c.in_flight * in_flight + c.fixed) * problem.degrees[g]});
  }
}

}  // namespace

FrontBounds::FrontBounds(const PlanningProblem& problem, const Suffixes& suffixes)
    : suffixes_(suffixes), memory_(problem.memory), total_devices_(problem.devices) {
  std::vector<Options> layers, lean;
  put_on_all_devices(problem, 1, layers);
  for (const Options& options : layers) lean.push_back(undominated(options));
  prices_ = prices_at(lean, {0.1, 0.5, 0.9});
  const int most = std::min(problem.devices, problem.microbatches);
  const double row = 8.0 * static_cast<double>(suffixes.size() * (prices_.size() + 1));
  const int slots = std::clamp(static_cast<int>(kMostBytes / row), 1, kMostSlots);
  step_ = (most + slots) / slots;
  for (int replicas = 0; replicas <= most; replicas += step_) {
    put_on_all_devices(problem, replicas + 1, layers);
    slots_.emplace_back(suffixes, layers, prices_);
  }
}

double FrontBounds::least_limit() const {
  const std::size_t all = suffixes_.size() - 1;
  if (slots_.front().memory(all, 0) > memory_ * total_devices_) return INFINITY;
  double limit = 0;
  for (std::size_t k = 0; k < prices_.size(); ++k)
    limit = std::max(limit, slots_.front().priced(all, 0, k) / total_devices_ - prices_[k] * memory_);
  return limit;
}

}  // namespace panpipe::planner::piper
