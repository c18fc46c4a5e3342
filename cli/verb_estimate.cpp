// panpipe estimate: a step on idle links.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/predict.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_estimate_verb(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<PredictOptions>();
  add_predict_options(sub, *options);
  run = [options] {
    const auto begin = app::PredictedStep::Clock::now();
    const auto planned = planned_scenario(*options);
    present({planned, estimated_step(planned->graph, planned->experiment.scenario, planned->plan), begin}, *options, "");
    return 0;
  };
}

}  // namespace panpipe::cli
