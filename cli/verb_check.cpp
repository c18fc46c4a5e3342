// panpipe check: what was understood, before anything is predicted.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "costmodel/cluster/links_matrix.hpp"

namespace panpipe::cli {

void add_check_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::string scenario;
    std::vector<std::string> overrides;
    bool links = false, costs = false, operators = false, json = false;
  };
  auto options = std::make_shared<Settings>();
  add_scenario_options(sub, options->scenario, options->overrides);
  sub.add_flag("--links", options->links, "print the bandwidth and latency of every pair of devices");
  sub.add_flag("--costs", options->costs, "print the costs the model believes, and where each comes from");
  sub.add_flag("--operators", options->operators, "print the operator graph of one microbatch");
  sub.add_flag("--json", options->json, "with --links or --costs: as a JSON document");
  run = [options] {
    Scenario scenario = load_scenario(options->scenario, options->overrides);
    if (options->links) {
      std::fputs((options->json ? links_json(scenario.cluster) + "\n" : links_matrix(scenario.cluster)).c_str(), stdout);
      return 0;
    }
    const Experiment experiment(std::move(scenario));
    if (options->operators) {
      if (!experiment.workload.graph) throw NoAnswer("measured layers have no operators");
      std::fputs(experiment.workload.graph->to_text().c_str(), stdout);
      return 0;
    }
    if (options->costs) {
      std::fputs((options->json ? costs_json(experiment.model) + "\n" : costs_table(experiment.model)).c_str(), stdout);
      return 0;
    }
    std::fputs(resolved_text(experiment.scenario).c_str(), stdout);
    // A scenario that is well-formed and cannot be planned is found here, not at the first prediction.
    const Plan plan = experiment.plan("");
    std::fputs(
        ("# " + std::to_string(plan.stages.size()) + " stages on " + std::to_string(plan.devices.size()) + " devices: legal\n")
            .c_str(),
        stdout);
    return 0;
  };
}

}  // namespace panpipe::cli
