// Keeps scenarios that were read, planned and lowered for the next call, because a repeated prediction spends most of its time on
// these steps.
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

struct CachedScenario {
  Experiment experiment;
  Plan plan;
  TaskGraph graph;
  std::string name;                                        // of the scenario
  std::vector<std::pair<std::string, std::string>> files;  // files read, with their bytes

  CachedScenario(Scenario scenario, const std::string& plan_file)
      : experiment(std::move(scenario)),
        plan(experiment.plan(plan_file)),
        graph(lower(experiment.scenario, plan, experiment.model)) {}
};

// Returns a kept scenario if all its files still hold the same bytes, else a new one. Does not need the GIL; thread-safe.
std::shared_ptr<const CachedScenario> cached_scenario(const ScenarioInput& input, const std::vector<std::string>& overrides,
                                                      const std::string& plan_file);
void clear_cached_scenarios();

}  // namespace panpipe::python
