// Why no plan exists: a layer that fits nowhere, or how far stages can be put together before memory or devices end.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/quantity_text.hpp"
#include "planner/piper/solve.hpp"

namespace panpipe::planner::piper {
namespace {

std::string amount(double bytes) { return fmt::format("{:.0f} B ({})", bytes, to_text(Bytes(static_cast<std::int64_t>(bytes)))); }

// The least that a layer alone takes, with so many microbatches in flight.
struct Least {
  double bytes = kInfinity;
  int tensor = 1;
  const Choice* choice = nullptr;
};

Least least_alone(const PlanningProblem& problem, std::size_t layer, int in_flight) {
  Least least;
  for (std::size_t g = 0; g < problem.degrees.size(); ++g)
    for (const Choice& choice : problem.layers[layer].choices[g])
      if (const double bytes = choice.in_flight * in_flight + choice.fixed; bytes < least.bytes)
        least = {bytes, problem.degrees[g], &choice};
  return least;
}

std::string memory_text(const PlanningProblem& problem, std::size_t layer, int in_flight, const Least& least) {
  return fmt::format("layer '{}' needs {} with {} microbatch{} in flight (tensor {}, '{}'), {} more than the {} of a device",
                     problem.layers[layer].name, amount(least.bytes), in_flight, in_flight == 1 ? "" : "es", least.tensor,
                     least.choice->name, amount(least.bytes - problem.memory), amount(problem.memory));
}

// The layer that is furthest over the limit when it stands alone, with one microbatch in flight.
std::string layer_that_fits_nowhere(const PlanningProblem& problem) {
  std::size_t worst = 0;
  Least most{problem.memory, 1, nullptr};
  for (std::size_t layer = 0; layer < problem.layers.size(); ++layer) {
    const Least least = least_alone(problem, layer, 1);
    if (!least.choice)
      return fmt::format("layer '{}' offers none of the tensor degrees that are allowed", problem.layers[layer].name);
    if (least.bytes > most.bytes) {
      worst = layer;
      most = least;
    }
  }
  return most.choice ? memory_text(problem, worst, 1, most) : std::string();
}

// The label that serves most of the model: the most device time, then the most layers, then the fewest devices.
struct Furthest {
  std::size_t suffix = 0;
  Label label;
};

Furthest furthest(const SuffixCosts& costs, const Threshold& unlimited) {
  Furthest best;
  const auto key = [&](std::size_t set) { return std::pair(costs.device_time()[set], costs.suffixes().layers_in(set)); };
  for (std::size_t set = 1; set < costs.suffixes().size(); ++set)
    if (!unlimited.labels(set).empty() && key(set) > key(best.suffix)) best = {set, unlimited.labels(set).front()};
  return best;
}

// The layers that could stand directly before a suffix, as a stage of their own on one replica.
std::string next_layer(const SuffixCosts& costs, const Furthest& reached) {
  const PlanningProblem& problem = costs.problem();
  const Incidence edges(problem);
  const int in_flight = reached.label.replicas + 1;
  std::size_t nearest = problem.layers.size();
  Least least;
  for (std::size_t layer = 0; layer < problem.layers.size(); ++layer) {
    const auto& out = edges.out_of[layer];
    const bool ready =
        !costs.suffixes().has(reached.suffix, static_cast<int>(layer)) &&
        std::all_of(out.begin(), out.end(), [&](int e) { return costs.suffixes().has(reached.suffix, problem.edges[e].to); });
    if (!ready) continue;
    const Least alone = least_alone(problem, layer, in_flight);
    if (nearest == problem.layers.size() || alone.bytes < least.bytes) {
      nearest = layer;
      least = alone;
    }
  }
  return least.bytes > problem.memory ? "; before them " + memory_text(problem, nearest, in_flight, least) : std::string();
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
    return fmt::format(
        "memory: the model needs at least {} with one microbatch in flight everywhere, {} more than the {} of {} device{}",
        amount(least), amount(least - present), amount(present), problem.devices, problem.devices == 1 ? "" : "s");
  Threshold unlimited(costs, nullptr, threads, 0);
  if (unlimited.reach(kInfinity, stop))
    return fmt::format("stages: there are plans with other numbers of stages, for instance {}, and none with {}",
                       unlimited.stages().size(), problem.stages);
  if (unlimited.stopped()) return "memory and devices together do not suffice; stopped before it was known how far they go";
  const Furthest reached = furthest(costs, unlimited);
  const int layers = costs.suffixes().layers_in(reached.suffix);
  const std::string so_far = fmt::format("the last {} of {} layers can be served with {} device{} ({} replica{} in all)", layers,
                                         problem.layers.size(), reached.label.devices, reached.label.devices == 1 ? "" : "s",
                                         reached.label.replicas, reached.label.replicas == 1 ? "" : "s");
  if (const std::string next = next_layer(costs, reached); !next.empty()) return "memory: " + so_far + next;
  return fmt::format("devices: {}; a device holds {}, and the {} left are too few for the {} layer{} before them", so_far,
                     amount(problem.memory), problem.devices - reached.label.devices,
                     static_cast<int>(problem.layers.size()) - layers,
                     static_cast<int>(problem.layers.size()) - layers == 1 ? "" : "s");
}

}  // namespace panpipe::planner::piper
