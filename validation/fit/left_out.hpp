// Cross-validation with true refits: leaves rows out, fits the numbers again, and predicts the rows with them. Private to this
// folder.
#pragma once

#include <functional>
#include <string>

#include "validation/fit/minimize.hpp"

namespace panpipe::validation {

struct LeftOut {
  const RowModel& model;
  const Vector& weights;
  const RobustLoss& loss;
  const Prior& prior;
  const Vector* starts;  // for a cluster's factor of each refit; null: the prior's own
  const Minimum& whole;  // the fit of all rows, the start of every refit

  // ln(predicted / measured) of the rows in `out`, predicted by a fit of the others; the other entries are undefined.
  Vector residuals(const std::vector<bool>& out) const;
};

}  // namespace panpipe::validation
