// The scenario with everything that is made from it, and its results as files: what every engine's verb stands on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/files_read.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/result.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

extern const char* const kVersion;

// Not copyable: the cost model refers to its neighbours.
struct Experiment {
  Scenario scenario;
  Workload workload;
  CostModel model;

  explicit Experiment(Scenario loaded);
  Experiment(Scenario loaded, std::vector<Calibration> calibrations);  // read before, one for each of the cluster's types
  Experiment(const Experiment&) = delete;
  Plan plan(const std::string& file) const;  // from a plan file, or what the scenario asks for when empty
};

// Version, input files with their SHA-256, seed. `libraries`: those that took part, with versions.
ResultContext result_context(const Experiment& experiment, const std::string& scenario_file, const FilesRead& files,
                             std::vector<std::pair<std::string, std::string>> libraries, double wall_s);

// Writes result.json, trace.json, scenario.yaml, plan.yaml, report.txt and schedule.svg into the folder, which is made when
// absent. MachineError when that cannot be written; no file is left half-written. Returns the sentence that says so.
std::string write_results(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const ResultContext& context,
                          const std::string& notes, const std::string& folder);

}  // namespace panpipe
