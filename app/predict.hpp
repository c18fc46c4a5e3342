// What `panpipe estimate` and `simulate`, and the functions of the Python package, predict of a scenario: a training step with
// everything that its documents are made of.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/estimated_step.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/prediction/memory_hints.hpp"
#include "present/result/result_plan.hpp"
#include "present/result/result_text.hpp"
#include "sim/simulate.hpp"

namespace panpipe::app {

using NamesAndValues = std::vector<std::pair<std::string, std::string>>;

// A scenario that was read, planned and lowered.
struct PlannedScenario {
  Experiment experiment;
  Plan plan;
  TaskGraph graph;
  bool plan_given;        // by a plan file
  std::string name;       // of the scenario
  NamesAndValues hashes;  // of the files that were read: path, SHA-256

  PlannedScenario(Scenario scenario, const std::string& plan_file)
      : experiment(std::move(scenario)),
        plan(experiment.plan(plan_file)),
        graph(answered(experiment.scenario, plan, experiment.model)),
        plan_given(!plan_file.empty()) {}
};

std::shared_ptr<const PlannedScenario> plan_scenario(const std::string& name, const std::function<Scenario()>& load,
                                                     const std::string& plan_file);

class PredictedStep {
 public:
  using Clock = std::chrono::steady_clock;

  // `begin` is when the call began.
  PredictedStep(std::shared_ptr<const PlannedScenario> planned, EstimatedStep step, Clock::time_point begin);
  PredictedStep(std::shared_ptr<const PlannedScenario> planned, Prediction prediction, Clock::time_point begin);

  const PlannedScenario& planned() const { return *planned_; }
  const Metrics& metrics() const { return metrics_; }
  TimelineKind kind() const { return kind_; }
  const Timeline& timeline() const;                     // made on first use
  const std::vector<MemoryHint>& memory_hints() const;  // the same

  present::ResultContext context(NamesAndValues libraries) const;
  std::string document(NamesAndValues libraries, bool with_timeline) const;
  std::string text(const TextStyle& style) const;  // the heading and the table
  std::string svg() const;
  std::string page(NamesAndValues libraries) const;
  std::string trace() const;
  std::string plan_yaml() const;
  std::string scenario_yaml() const;

 private:
  present::ResultPlan described() const;

  std::shared_ptr<const PlannedScenario> planned_;
  TimelineKind kind_;
  Metrics metrics_;
  TaskTimes times_;
  double wall_s_;
  mutable std::once_flag once_, once_for_hints_;
  mutable std::optional<Timeline> timeline_;
  mutable std::vector<MemoryHint> memory_hints_;
};

// Times on the topology. `statistics` may be null.
Prediction simulate(const PlannedScenario& planned, const sim::Options& options, sim::Statistics* statistics = nullptr);

}  // namespace panpipe::app
