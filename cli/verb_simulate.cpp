// panpipe simulate: a step on the topology, where links are shared.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "sim/simulate.hpp"

namespace panpipe::cli {

void add_simulate_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings : PredictOptions {
    sim::Options sim;
    bool no_merge = false, no_fold = false;
  };
  auto options = std::make_shared<Settings>();
  add_predict_options(sub, *options);
  sub.add_option_function<std::string>(
         "--backend", [options](const std::string& name) { options->sim.backend = sim::backend_named(name); },
         "simgrid (default), or flow: Panpipe's own max-min flow solver")
      ->type_name("simgrid|flow");
  sub.add_flag("--no-merge", options->no_merge, "simulate every step of every pass as an activity of its own");
  sub.add_flag("--no-fold", options->no_fold, "simulate every device, also those that do the same as another");
  run = [options] {
    const auto begin = app::PredictedStep::Clock::now();
    options->sim.merge = !options->no_merge;
    options->sim.fold = !options->no_fold;
    const auto planned = planned_scenario(*options);
    sim::Statistics statistics;
    Prediction prediction = app::simulate(*planned, options->sim, &statistics);
    const std::string notes = fmt::format(
        "simulated with {}: {} activities, {} flows, {} device{} folded into one, passes {}\n",
        options->sim.backend == sim::Backend::SimGrid ? "SimGrid" : "the flow solver", statistics.activities, statistics.flows,
        statistics.folded_devices, statistics.folded_devices == 1 ? "" : "s", statistics.merged ? "merged" : "step by step");
    present({planned, std::move(prediction), begin}, *options, notes);
    return 0;
  };
}

}  // namespace panpipe::cli
