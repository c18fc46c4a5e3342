// Why no plan exists: the limit that is in the way.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/counted.hpp"
#include "base/text/quantity_text.hpp"
#include "planner/piper/solve.hpp"

namespace panpipe::planner::piper {
namespace {

std::string amount(double bytes) { return fmt::format("{:.0f} B ({})", bytes, to_text(Bytes(static_cast<std::int64_t>(bytes)))); }

// The layer that is furthest over the limit when it stands alone, with one microbatch in flight.
std::string layer_that_fits_nowhere(const PlanningProblem& problem) {
  std::string worst;
  double most = problem.memory;
  for (const Layer& layer : problem.layers) {
    double least = kInfinity;
    for (const std::vector<Choice>& choices : layer.choices)
      for (const Choice& choice : choices) least = std::min(least, choice.in_flight + choice.fixed);
    if (least == kInfinity) return fmt::format("layer '{}' offers none of the tensor degrees that are allowed", layer.name);
    if (least <= most) continue;
    most = least;
    worst = fmt::format("layer '{}' needs {} with one microbatch in flight, {} more than the {} of a device", layer.name,
                        amount(least), amount(least - problem.memory), amount(problem.memory));
  }
  return worst;
}

// Weights and one microbatch of activations, as lean as can be, of the whole model on one tensor rank each.
double least_of_all(const PlanningProblem& problem) {
  double bytes = 0;
  for (const Layer& layer : problem.layers) {
    double least = kInfinity;
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& choice : layer.choices[g])
        least = std::min(least, (choice.in_flight + choice.fixed) * problem.degrees[g]);
    bytes += least;
  }
  return bytes;
}

}  // namespace

std::string obstacle(const SuffixCosts& costs, int threads, const std::atomic<bool>* stop) {
  const PlanningProblem& problem = costs.problem();
  if (costs.data_degrees().empty())
    return fmt::format("no data-parallel degree from {} to {} divides the {} microbatches", problem.least_data,
                       problem.most_data > 0 ? problem.most_data : problem.devices, problem.microbatches);
  if (const std::string alone = layer_that_fits_nowhere(problem); !alone.empty()) return "memory: " + alone;
  const double least = least_of_all(problem), present = problem.memory * problem.devices;
  if (least > present)
    return fmt::format("memory: the model needs at least {} with one microbatch in flight everywhere, {} more than the {} of {}",
                       amount(least), amount(least - present), amount(present), counted(problem.devices, "device"));
  if (problem.stages > 0) {
    Threshold any_number(costs, threads, 0);
    if (any_number.reach(kInfinity, stop))
      return fmt::format("stages: there are plans with other numbers of stages, for instance {}, and none with {}",
                         any_number.stages().size(), problem.stages);
    if (any_number.stopped()) return fmt::format("no plan has {}", counted(problem.stages, "stage"));
  }
  return fmt::format(
      "memory: stages that fit into the {} of a device need more than {} for all {} layers, with the microbatches "
      "that they have in flight",
      amount(problem.memory), counted(problem.devices, "device"), problem.layers.size());
}

}  // namespace panpipe::planner::piper
