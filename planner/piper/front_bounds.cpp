#include "planner/piper/front_bounds.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"

namespace panpipe::planner::piper {
namespace {

constexpr double kMostBytes = 24e6;  // of all sums
constexpr int kMostSlots = 64;

// The choices of each layer on the devices of any degree, with this number of microbatches in flight.
std::vector<Options> on_all_devices(const PlanningProblem& problem, int in_flight) {
  std::vector<Options> layers;
  for (const Layer& layer : problem.layers) {
    Options options;
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& c : layer.choices[g])
        options.push_back({c.time * problem.degrees[g], (c.in_flight * in_flight + c.fixed) * problem.degrees[g]});
    layers.push_back(undominated(std::move(options)));
  }
  return layers;
}

}  // namespace

FrontBounds::FrontBounds(const PlanningProblem& problem, const Suffixes& suffixes)
    : suffixes_(suffixes),
      memory_(problem.memory),
      total_devices_(problem.devices),
      prices_(prices_at(on_all_devices(problem, 1), {0.1, 0.5, 0.9})) {
  const int most = std::min(problem.devices, problem.microbatches);
  const double row = 8.0 * static_cast<double>(suffixes.size() * (prices_.size() + 1));
  const int slots = std::clamp(static_cast<int>(kMostBytes / row), 1, kMostSlots);
  step_ = (most + slots) / slots;
  for (int replicas = 0; replicas <= most; replicas += step_)
    slots_.emplace_back(suffixes, on_all_devices(problem, replicas + 1), prices_);
}

double FrontBounds::devices(std::size_t suffix, int replicas, double limit) const {
  const PricedSums& sums = slots_[at(replicas / step_)];
  const std::size_t all = suffixes_.size() - 1;
  double most = sums.memory(all, suffix) / memory_;
  for (std::size_t k = 0; k < prices_.size() && !std::isinf(limit); ++k)
    most = std::max(most, sums.priced(all, suffix, k) / (limit + prices_[k] * memory_));
  return most;
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
