#include "costmodel/prediction/prediction.hpp"

#include "costmodel/estimate/estimate.hpp"

namespace panpipe {

Engine idle_links() {
  return [](const TaskGraph& graph, const Cluster&) { return estimate(graph); };
}

Prediction predict(const TaskGraph& graph, const Cluster& cluster, const Engine& engine) {
  Prediction prediction;
  prediction.timeline = engine(graph, cluster);
  prediction.metrics = metrics(prediction.timeline);
  return prediction;
}

Prediction predict(const Scenario& scenario, const Plan& plan, const Engine& engine) {
  const Workload workload = make_workload(scenario, plan);
  return predict(lower(scenario, plan, CostModel(scenario, workload)), scenario.cluster, engine);
}

Prediction predict(const Experiment& experiment, const Plan& plan, const Engine& engine) {
  return predict(lower(experiment.scenario, plan, experiment.model), experiment.scenario.cluster, engine);
}

}  // namespace panpipe
