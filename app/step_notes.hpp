// The remarks on a predicted step that stand next to its figures.
#pragma once

#include <string>
#include <vector>

#include "app/predict.hpp"

namespace panpipe::app {

// Sentences that begin with their kind: "caution: ", "assumed: ", "memory: ", "warning: ", "note: ".
std::vector<std::string> step_notes(const PredictedStep& step);

}  // namespace panpipe::app
