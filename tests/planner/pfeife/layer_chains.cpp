#include "tests/planner/pfeife/layer_chains.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/temporary_folder.hpp"

namespace panpipe::test {

std::unique_ptr<Experiment> experiment_of(const LayersCase& made) {
  std::string layers = "panpipe: 1\nkind: layers\nsource: test\nlayers:\n";
  for (std::size_t i = 0; i < made.layers.size(); ++i) {
    const Layer& layer = made.layers[i];
    const double backward = std::abs(made.backward_ratio) * layer.forward_ms;
    const std::string gradients = made.backward_ratio > 0 ? fmt::format("backward: {:.17g} ms", backward)
                                                          : fmt::format("input_gradient: {:.17g} ms, weight_gradient: {:.17g} ms",
                                                                        backward / 2, backward / 2);
    layers += fmt::format("- {{name: op{}, forward: {:.17g} ms, {}, saved: {} B, temporary: {} B, parameters: {} B{}}}\n", i,
                          layer.forward_ms, gradients, layer.saved, layer.temporary, layer.parameters,
                          made.edges.empty() ? ", output: 1 B" : "");
  }
  if (!made.edges.empty()) layers += "edges:\n";
  for (const auto& [from, to, bytes] : made.edges)
    layers += fmt::format("- {{from: op{}, to: op{}, bytes: {} B}}\n", from, to, bytes);
  const std::string path = scratch().write("layers.yaml", layers);
  const std::string scenario = fmt::format(
      "panpipe: 1\ncluster: {{devices: {}, memory: {} B, usable: {}, link: {}}}\nworkload: {{layers: {}}}\n"
      "batch: {{micro: 1, microbatches: {}}}\n{}",
      made.devices, made.memory, made.usable, made.link, path, made.microbatches, made.extra);
  return std::make_unique<Experiment>(parse_scenario(scenario, "case.yaml", "."));
}

planner::Answer plan_pfeife(const Experiment& experiment, std::size_t candidates, int threads) {
  planner::SearchOptions options;
  options.method = planner::Method::Pfeife;
  options.candidates = candidates;
  options.threads = threads;
  return planner::search(experiment, options);
}

double metric(const planner::Candidate& candidate, const std::string& name) {
  for (const auto& [key, value] : candidate.metrics)
    if (key == name) return value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

}  // namespace panpipe::test
