// What compared runs say of predictions that nobody compared: the file panpipe-evidence/1 (docs/models/uncertainty.md).
#pragma once

#include <vector>

#include "validation/runs/run_prediction.hpp"

namespace panpipe {

// Of the rows that were predicted and measured. Predictions should be without each row's own source
// (PredictionOptions::left_out).
EvidenceTable make_evidence(const std::vector<RunPrediction>& runs);

}  // namespace panpipe
