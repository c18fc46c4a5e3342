// panpipe check: what was understood, before anything is predicted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "costmodel/base/error.hpp"
#include "costmodel/base/index_ranges.hpp"
#include "costmodel/cluster/links_matrix.hpp"
#include "costmodel/experiment/heading.hpp"
#include "costmodel/workload/movable_units.hpp"

namespace panpipe::cli {
namespace {

std::string operators_of(const Experiment& experiment) {
  if (!experiment.workload.graph) throw NoAnswer("measured layers have no operators");
  return experiment.workload.graph->to_text();
}

std::string units_of(const Experiment& experiment, bool json) {
  if (!experiment.workload.graph) throw NoAnswer("measured layers have no operators: each layer is a unit, and moves by itself");
  return json ? units_json(*experiment.workload.graph) : units_table(*experiment.workload.graph);
}

// Every line as a comment of YAML: what is printed is a scenario that loads again.
std::string commented(const std::string& lines) {
  std::string out;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    out += "# " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

// A scenario that is well-formed and cannot be planned is found here, not at the first prediction.
std::string resolved_and_planned(const Experiment& experiment) {
  const Plan plan = experiment.plan("");
  const int devices = experiment.scenario.cluster.size();
  const std::vector<int> unused = unused_indices(plan.devices, devices);
  const std::string text =
      commented(heading_of(experiment.scenario, experiment.workload, plan)) + resolved_text(experiment.scenario);
  return text + fmt::format("# {} stages on {} devices: legal\n", plan.stages.size(), plan.devices.size()) +
         (unused.empty() ? "" : "# warning: " + unused_devices_text(unused, devices) + "\n");
}

std::string between(const std::string& text) { return text.empty() ? "" : "\n"; }

}  // namespace

void add_check_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::string scenario;
    std::vector<std::string> overrides;
    bool links = false, costs = false, operators = false, units = false, json = false;
  };
  auto options = std::make_shared<Settings>();
  add_scenario_options(sub, options->scenario, options->overrides);
  sub.add_flag("--links", options->links, "print the bandwidth and latency of every pair of devices");
  sub.add_flag("--costs", options->costs, "print the costs the model believes, and where each comes from");
  sub.add_flag("--operators", options->operators, "print the operator graph of one microbatch");
  sub.add_flag("--units", options->units, "print which operators move together when the model is cut, and why");
  sub.add_flag("--json", options->json, "with --links, --costs or --units: as a JSON document");
  run = [options] {
    Scenario scenario = load_scenario(options->scenario, options->overrides);
    if (options->json && options->links + options->costs + options->units != 1)
      throw InputError("--json needs --links, --costs or --units, one of them: each is a document");
    std::string text;
    if (options->links) text = options->json ? links_json(scenario.cluster) + "\n" : links_matrix(scenario.cluster);
    if (options->costs || options->operators || options->units || !options->links) {
      const Experiment experiment(std::move(scenario));
      if (options->costs)
        text += between(text) + (options->json ? costs_json(experiment.model) + "\n" : costs_table(experiment.model));
      if (options->operators) text += between(text) + operators_of(experiment);
      if (options->units) text += between(text) + units_of(experiment, options->json);
      if (text.empty()) text = resolved_and_planned(experiment);
    }
    print(text);
    return 0;
  };
}

}  // namespace panpipe::cli
