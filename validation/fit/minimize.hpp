// The least squares themselves, by Ceres. Private to this folder.
#pragma once

#include <functional>
#include <string>

#include "validation/fit/robust_loss.hpp"
#include "validation/fit/row_model.hpp"

namespace panpipe {

// Pulls every number weakly to its start, so that what no row shows stays where data sheets put it.
struct Prior {
  Vector starts;     // logarithms
  Vector strengths;  // residual per unit of the logarithm
};

struct Minimum {
  Vector logs, residuals;
  Matrix derivatives;  // of the rows with weight; empty: not yet known
  double cost = 0;     // half the sum of squares, as Ceres counts
  int iterations = 0;
  bool converged = false;
};

struct MinimizeOptions {
  int iterations = 30;                           // at most
  int renewals = 4;                              // exact derivatives taken where a search ended, at most; 0: none
  std::function<void(const Minimum&)> progress;  // after each evaluation that was the best so far
};

// From `from` on; its derivatives, when it has any, are used as long as nothing moved far. Stops early, with the best so far,
// when the model is stopped. Throws NoAnswer when it is stopped before anything was evaluated.
Minimum minimize(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Prior& prior, const Minimum& from,
                 const MinimizeOptions& options);

}  // namespace panpipe
