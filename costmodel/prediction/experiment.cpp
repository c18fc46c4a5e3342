#include "costmodel/prediction/experiment.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/plan/host_memory.hpp"
#include "costmodel/prediction/microbatch_order.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "costmodel/workload/movable_units.hpp"

namespace panpipe {
namespace {
// Explains a stated cut inside a unit. Names that match nothing are found when the plan is made.
void check_stated_cuts(const Scenario& scenario, const OperatorGraph& graph) {
  for (const std::string& place : scenario.partition) {
    const auto is_unit = [&](const UnitInfo& unit) { return unit.name == place || unit.name.starts_with(place + "."); };
    if (std::any_of(graph.units.begin(), graph.units.end(), is_unit)) continue;
    if (const std::string why = why_no_cut(graph, place); !why.empty())
      throw placed(InputError("partition: " + why), scenario, "partition");
  }
}

}  // namespace

Experiment::Experiment(Scenario loaded)
    : scenario(std::move(loaded)), workload(make_workload(scenario)), model(scenario, workload) {
  if (workload.graph) check_stated_cuts(scenario, *workload.graph);
}

Experiment::Experiment(Scenario loaded, std::vector<Calibration> calibrations)
    : scenario(std::move(loaded)), workload(make_workload(scenario)), model(scenario, workload, std::move(calibrations)) {}

double mean_tokens(const Experiment& experiment) {
  const MicrobatchLengths& lengths = experiment.scenario.lengths;
  if (!lengths.any()) return tokens_per_sample(experiment.workload);
  double tokens = 0;
  const std::vector<int> sequences = listed_sequences(experiment.scenario);
  for (const int length : sequences) tokens += lengths.shapes[at(length)].tokens();
  return tokens / static_cast<double>(sequences.size());
}

Plan Experiment::plan(const std::string& file) const {
  Plan plan = file.empty() ? make_plan(scenario, model) : load_plan(file, scenario, model);
  if (file.empty() && searches_order(scenario)) order_microbatches(scenario, model, plan);
  check_host_memory(scenario, plan, model);
  return plan;
}

}  // namespace panpipe
