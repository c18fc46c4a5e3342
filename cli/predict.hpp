// What the predicting verbs share: their options, and writing what they found.
#pragma once

#include <string>
#include <vector>

#include "costmodel/base/files_read.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

struct PredictOptions {
  std::string scenario;
  std::vector<std::string> overrides;  // --set
  std::string plan;                    // --plan
  std::string output;                  // -o
  bool json = false;
  bool timeline = false;
};

void add_scenario_options(CLI::App& sub, std::string& scenario, std::vector<std::string>& overrides);
void add_predict_options(CLI::App& sub, PredictOptions& options);

// The scenario with everything made from it. Not copyable: the cost model refers to its neighbours.
struct Experiment {
  Scenario scenario;
  Workload workload;
  CostModel model;

  explicit Experiment(Scenario loaded);
  Experiment(const Experiment&) = delete;
  Plan plan(const std::string& file) const;  // from a plan file, or what the scenario asks for when empty
};

// Prints the table (or the result document) and writes result.json, trace.json, scenario.yaml, plan.yaml and report.txt into
// the folder of -o. MachineError when that cannot be written; nothing is left half-written.
void present(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const PredictOptions& options,
             const FilesRead& files, const std::string& notes, double wall_s);

}  // namespace panpipe::cli
