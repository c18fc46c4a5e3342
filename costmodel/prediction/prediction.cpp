#include "costmodel/prediction/prediction.hpp"

#include "costmodel/estimate/estimate.hpp"

namespace panpipe {

Engine idle_links() {
  return [](const TaskGraph& graph, const Cluster&) { return estimate(graph); };
}

Prediction predict(const TaskGraph& graph, const Scenario& scenario, const Plan& plan, const Engine& engine) {
  Prediction prediction;
  prediction.timeline = engine(graph, scenario.cluster);
  Metrics& figures = prediction.metrics = metrics(prediction.timeline);
  prediction.terms = terms_of(graph, figures, figures.step_time_s);
  prediction.kind = likeness_of(scenario, plan, prediction.terms, figures.step_time_s);
  state_evidence(figures, prediction.kind);
  return prediction;
}

Prediction predict(const Scenario& scenario, const Plan& plan, const Engine& engine) {
  const Workload workload = make_workload(scenario, plan);
  return predict(lower(scenario, plan, CostModel(scenario, workload)), scenario, plan, engine);
}

Prediction predict(const Experiment& experiment, const Plan& plan, const Engine& engine) {
  return predict(lower(experiment.scenario, plan, experiment.model), experiment.scenario, plan, engine);
}

}  // namespace panpipe
