#include "validation/fit/row_model.hpp"

#include <cmath>

#include "base/parallel_for.hpp"

namespace panpipe::validation {
namespace {

constexpr double kStep = 0.02;  // of the logarithm, for differences: far above what rounding to picoseconds changes

std::vector<std::size_t> weighted(const Vector& weights) {
  std::vector<std::size_t> rows;
  for (Eigen::Index i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) rows.push_back(static_cast<std::size_t>(i));
  return rows;
}

}  // namespace

Calibration RowModel::calibration(const Vector& logs) const {
  Calibration c = start_;
  for (std::size_t p = 0; p < parameters_.size(); ++p) parameters_[p]->set(c, std::exp(logs[at_index(p)]));
  return c;
}

Vector RowModel::residuals(const Vector& logs, const Vector& weights) const {
  const Calibration c = calibration(logs);
  const std::vector<std::size_t> wanted = weighted(weights);
  Vector result = Vector::Zero(weights.size());
  parallel_for(wanted.size(), 0, [&](std::size_t k, std::size_t) {
    if (stopped()) return;
    const FitRow& row = rows_[wanted[k]];
    result[at_index(wanted[k])] = std::log(row.predicted_s(c) / *row.row().step_s);
  });
  return result;
}

Matrix RowModel::derivatives(const Vector& logs, const Vector& at, const Vector& weights) const {
  const std::vector<std::size_t> wanted = weighted(weights);
  std::vector<Calibration> moved;
  Vector steps(logs.size());
  for (Eigen::Index p = 0; p < logs.size(); ++p) {
    steps[p] = logs[p] + kStep > std::log(parameters_[p]->high) ? -kStep : kStep;
    Vector there = logs;
    there[p] += steps[p];
    moved.push_back(calibration(there));
  }
  Matrix result = Matrix::Zero(at.size(), logs.size());
  parallel_for(wanted.size() * moved.size(), 0, [&](std::size_t k, std::size_t) {
    if (stopped()) return;
    const std::size_t i = wanted[k / moved.size()], p = k % moved.size();
    if (silent_.size() > 0 && silent_(at_index(i), at_index(p))) return;
    const FitRow& row = rows_[i];
    const double there = std::log(row.predicted_s(moved[p]) / *row.row().step_s);
    result(at_index(i), at_index(p)) = (there - at[at_index(i)]) / steps[at_index(p)];
  });
  if (silent_.size() == 0 && wanted.size() == rows_.size() && !stopped()) silent_ = result.array() == 0;
  return result;
}

}  // namespace panpipe::validation
