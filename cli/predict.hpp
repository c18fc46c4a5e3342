// Shared by the predicting verbs: their options, and the output of results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/predict.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

struct ScenarioOptions {
  std::string scenario;
  std::vector<std::string> overrides;  // --set
  std::string plan;                    // --plan

  std::vector<std::string> evidence;  // --evidence, of a verb that has it

  std::vector<std::string> all_overrides() const;  // with the evidence
  Scenario load() const { return load_scenario(scenario, all_overrides(), plan); }
};

// Files of --evidence as overrides, after the others.
void add_evidence(const std::vector<std::string>& files, std::vector<std::string>& overrides);

struct PredictOptions : ScenarioOptions {
  std::string output;  // -o
  bool json = false;
  bool timeline = false;
  bool all_spans = false;
};

// Of a verb that reads what was measured: the scenario that is predicted next to it, and which of its ranks was measured.
struct BesideOptions : ScenarioOptions {
  std::optional<int> rank;

  bool wanted() const;  // throws InputError where the others stand without --scenario
};

void add_scenario_options(CLI::App& sub, ScenarioOptions& options);  // without --plan
void add_beside_options(CLI::App& sub, BesideOptions& options, const std::string& rank);
void add_evidence_option(CLI::App& sub, ScenarioOptions& options);
void add_plan_option(CLI::App& sub, ScenarioOptions& options);
void add_predict_options(CLI::App& sub, PredictOptions& options);

// Reports on standard error if the ranks outnumber the cores of the host on which the profile was measured.
void report_cores(const Scenario& scenario, int pipeline);

// Throws also if the files of -o could not be written.
std::shared_ptr<const app::PlannedScenario> planned_scenario(const PredictOptions& options);

// Prints the table (or the result document) and writes result.json, trace.json, scenario.yaml, plan.yaml and report.txt into the
// folder of -o. Throws MachineError if a file cannot be written; nothing is left half-written.
void present(const app::PredictedStep& step, const PredictOptions& options, const std::string& notes);

}  // namespace panpipe::cli
