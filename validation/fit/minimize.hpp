// Solves the least-squares problem with Ceres. Private to this folder.
#pragma once

#include <functional>
#include <string>

#include "validation/fit/robust_loss.hpp"
#include "validation/fit/row_model.hpp"

namespace panpipe::validation {

// Pulls every number weakly to its start, so that numbers not determined by rows keep their data-sheet values.
struct Prior {
  Vector starts;     // logarithms
  Vector strengths;  // residual per unit of the logarithm
};

struct Minimum {
  Vector logs, residuals;
  Matrix derivatives;  // of the rows with weight; empty: not yet computed
  double cost = 0;     // half the sum of squares, as in Ceres
  int iterations = 0;
  bool converged = false;
};

struct MinimizeOptions {
  int iterations = 30;                           // at most
  int renewals = 4;                              // most recomputations of exact derivatives after a search ended; 0: none
  std::function<void(const Minimum&)> progress;  // called after each evaluation that is the best so far
};

// Starts from `from`, and uses its derivatives, if any, until a number moves far. If the model is stopped, returns the best so
// far; throws NoAnswer if nothing was evaluated yet.
Minimum minimize(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Prior& prior, const Minimum& from,
                 const MinimizeOptions& options);

}  // namespace panpipe::validation
