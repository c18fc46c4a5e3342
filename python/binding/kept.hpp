// Scenarios that were read, planned and lowered, kept for the next call: most of what a prediction costs is the same again when
// only the question is asked again.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "present/result/result.hpp"
#include "python/binding/scenario_input.hpp"

namespace panpipe::python {

struct Kept {
  Experiment experiment;
  Plan plan;
  TaskGraph graph;
  std::string name;                                        // of the scenario
  std::vector<std::pair<std::string, std::string>> files;  // that were read, with their bytes

  Kept(Scenario scenario, const std::string& plan_file)
      : experiment(std::move(scenario)),
        plan(experiment.plan(plan_file)),
        graph(lower(experiment.scenario, plan, experiment.model)) {}
};

// One that was kept, if all files that it was made from still hold the same bytes; else a new one. Without the GIL, from any
// thread.
std::shared_ptr<const Kept> kept_for(const ScenarioInput& input, const std::vector<std::string>& overrides,
                                     const std::string& plan_file);
void forget_kept();

}  // namespace panpipe::python
