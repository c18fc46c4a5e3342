// Derives evidence for new predictions from compared runs: the file panpipe-evidence/1 (docs/models/uncertainty.md).
#pragma once

#include <vector>

#include "validation/runs/run_prediction.hpp"

namespace panpipe::validation {

// Uses the rows with prediction and measurement. Each prediction should come from a fit without the row's own source
// (PredictionOptions::left_out).
EvidenceTable make_evidence(const std::vector<RunPrediction>& runs);

}  // namespace panpipe::validation
