// Shared by the predicting verbs: their options, and the output of results.
#pragma once

#include <string>
#include <vector>

#include "base/files/files_read.hpp"
#include "costmodel/prediction/prediction.hpp"

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
  bool all_spans = false;
};

void add_scenario_options(CLI::App& sub, std::string& scenario, std::vector<std::string>& overrides);
void add_predict_options(CLI::App& sub, PredictOptions& options);

// Reports on standard error if the ranks outnumber the cores of the host on which the profile was measured.
void report_cores(const Scenario& scenario, int pipeline);

// Prints the table (or the result document) and writes result.json, trace.json, scenario.yaml, plan.yaml and report.txt into the
// folder of -o. Throws MachineError if a file cannot be written; nothing is left half-written.
void present(const Experiment& experiment, const Plan& plan, const Prediction& prediction, const PredictOptions& options,
             const FilesRead& files, const std::string& notes, double wall_s);

}  // namespace panpipe::cli
