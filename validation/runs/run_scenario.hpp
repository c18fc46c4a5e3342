// A measured run as a scenario: the same text that a user would write, so that validation covers what users run.
#pragma once

#include <string>
#include <vector>

#include "validation/runs/run_row.hpp"

namespace panpipe::validation {

struct RunScenario {
  std::string text;                  // YAML; empty when the run is skipped
  std::string folder;                // of the files that the text names; empty: the shipped data
  std::vector<std::string> assumed;  // "micro_batch: 2": values that the row leaves open, with their defaults
  std::string skipped;               // reason why it cannot be expressed
  // Steps follow each other without a barrier, so a rank starts the next one as soon as it is done (Zero Bubble's optimizer step,
  // which is validated afterwards). The measurement is then the period, not the time from the first start to the last end.
  bool rolling = false;
};

// Defaults: docs/validate.md. `calibration` as in cluster_of.
RunScenario scenario_of(const RunRow& row, const std::string& calibration = "");

}  // namespace panpipe::validation
