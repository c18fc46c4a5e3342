// A measured run as a scenario: the text that a user would write for it, so that what is validated is what users run.
#pragma once

#include <string>
#include <vector>

#include "validation/runs/run_row.hpp"

namespace panpipe {

struct RunScenario {
  std::string text;                  // YAML; empty when the run is skipped
  std::vector<std::string> assumed;  // "micro_batch: 2": what the row leaves open, and the default that stands in
  std::string skipped;               // why it cannot be expressed
  // Steps follow one another without a barrier, so that a rank starts the next one as soon as it is done (Zero Bubble's optimizer
  // step, which is validated afterwards): what was measured is the period, not the time from the first start to the last end.
  bool rolling = false;
};

// Defaults: docs/validate.md. `calibration` as in cluster_of.
RunScenario scenario_of(const RunRow& row, const std::string& calibration = "");

}  // namespace panpipe
