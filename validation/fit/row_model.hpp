// The rows as a function of a device's numbers: from logarithms to residuals and derivatives. Private to this folder.
#pragma once

#include <Eigen/Dense>
#include <functional>
#include <vector>

#include "validation/fit/fit_parameter.hpp"
#include "validation/fit/fit_rows.hpp"

namespace panpipe::validation {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

inline Eigen::Index at_index(std::size_t i) { return static_cast<Eigen::Index>(i); }

class RowModel {
 public:
  // The arguments must outlive the model. `stopped` is called from several threads.
  RowModel(const std::vector<FitRow>& rows, const Calibration& start, std::vector<const FitParameter*> parameters,
           std::function<bool()> stopped)
      : rows_(rows), start_(start), parameters_(std::move(parameters)), stopped_(std::move(stopped)) {}

  std::size_t rows() const { return rows_.size(); }
  const std::vector<FitRow>& all() const { return rows_; }
  const std::vector<const FitParameter*>& parameters() const { return parameters_; }
  bool stopped() const { return stopped_ && stopped_(); }

  Calibration calibration(const Vector& logs) const;
  // ln(predicted / measured) of the rows with non-zero weight; 0 for the others. Undefined once stopped().
  Vector residuals(const Vector& logs, const Vector& weights) const;
  // Forward differences, one column per number. `at`: the residuals at `logs`.
  Matrix derivatives(const Vector& logs, const Vector& at, const Vector& weights) const;

 private:
  const std::vector<FitRow>& rows_;
  const Calibration& start_;
  std::vector<const FitParameter*> parameters_;
  std::function<bool()> stopped_;
  // Rows that a number does not affect (a network's share in a run on one node), found when derivatives were first computed for
  // all.
  mutable Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic> silent_;
};

}  // namespace panpipe::validation
