// Derives evidence for new predictions from compared runs: the file panpipe-evidence/2 (docs/models/uncertainty.md), and the
// judgement of it.
#pragma once

#include <vector>

#include "costmodel/prediction/evidence.hpp"
#include "validation/judge/judge.hpp"
#include "validation/runs/run_prediction.hpp"

namespace panpipe::validation {

// The rows with prediction, measurement and source whose columns are known (`fair` is not "no"). A source's family is the
// column's, else the source's name up to the first of "_.-".
std::vector<JudgedSource> judged_sources(const std::vector<RunPrediction>& runs);

EvidenceTable make_evidence(const std::vector<RunPrediction>& runs, const UncertaintyPrior& prior);

}  // namespace panpipe::validation
