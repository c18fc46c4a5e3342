// Cross-validation by true refits: rows are left out, the numbers are fitted again, and the rows predicted with those. Private to
// this folder.
#pragma once

#include <functional>
#include <string>

#include "validation/fit/minimize.hpp"

namespace panpipe {

struct LeftOut {
  const RowModel& model;
  const Vector& weights;
  const RobustLoss& loss;
  const Prior& prior;
  const Minimum& whole;  // the fit of all rows, where every refit begins

  // ln(predicted / measured) of the rows in `out`, predicted by a fit of the others; the other entries mean nothing.
  Vector residuals(const std::vector<bool>& out) const;
};

}  // namespace panpipe
