// Robust least squares with Ceres. Left-out fits are taken from the fit's own derivatives: near its solution the logarithms of
// predictions are linear in the logarithms of the parameters, so nothing need be predicted again.
#include "validation/fit/fit.hpp"

#include <ceres/ceres.h>
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "costmodel/base/error.hpp"
#include "validation/parallel_for.hpp"

namespace panpipe {
namespace {

// Residuals are ln(predicted / measured); beyond this size they count less than squared.
constexpr double kRobustScale = 0.05;
constexpr double kStep = 0.02;         // of the logarithm, for differences
constexpr int kRefits = 25;            // rounds of reweighting in a left-out fit
constexpr double kNoise = 0.01;        // of a measured time: uncertainties do not go below what it explains
constexpr double kUndetermined = 0.8;  // of the prior's width: so wide means that rows said nothing

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

// Sources of many rows would drown the others: a source's rows together weigh as the root of their number.
Vector row_weights(const std::vector<FitRow>& rows) {
  std::map<std::string, double> count;
  for (const FitRow& row : rows) count[row.row().source] += 1;
  Vector weights(static_cast<Eigen::Index>(rows.size()));
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    sum += weights[static_cast<Eigen::Index>(i)] = 1 / std::sqrt(count[rows[i].row().source]);
  return weights * (static_cast<double>(rows.size()) / sum);
}

// Logarithms of parameters in, residuals and derivatives of all rows out. One block, so that rows run on all cores.
class Model {
 public:
  Model(const std::vector<FitRow>& rows, const Calibration& start, std::vector<const FitParameter*> parameters)
      : rows_(rows), start_(start), parameters_(std::move(parameters)) {}

  Calibration calibration(const double* logs) const {
    Calibration c = start_;
    for (std::size_t p = 0; p < parameters_.size(); ++p) parameters_[p]->set(c, std::exp(logs[p]));
    return c;
  }

  Vector residuals(const double* logs) const {
    const Calibration c = calibration(logs);
    Vector result(static_cast<Eigen::Index>(rows_.size()));
    parallel_for(rows_.size(), 0, [&](std::size_t i) {
      result[static_cast<Eigen::Index>(i)] = std::log(rows_[i].predicted_s(c) / *rows_[i].row().step_s);
    });
    return result;
  }

  Matrix derivatives(const double* logs, const Vector& at) const {
    Matrix result(at.size(), static_cast<Eigen::Index>(parameters_.size()));
    std::vector<double> moved(logs, logs + parameters_.size());
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const double step = moved[p] + kStep > std::log(parameters_[p]->high) ? -kStep : kStep;
      moved[p] += step;
      result.col(static_cast<Eigen::Index>(p)) = (residuals(moved.data()) - at) / step;
      moved[p] -= step;
    }
    return result;
  }

  std::size_t size() const { return rows_.size(); }

 private:
  const std::vector<FitRow>& rows_;
  Calibration start_;
  std::vector<const FitParameter*> parameters_;
};

// A row's share of the loss: 2 scale^2 (sqrt(1 + (r/scale)^2) - 1), as half a square. Ceres takes one loss per block, and all
// rows are one block, so the root of the loss is the residual.
double robust(double r) {
  const double s = r / kRobustScale;
  const double half = 2 * kRobustScale * kRobustScale * (std::sqrt(1 + s * s) - 1);
  return std::copysign(std::sqrt(half), r);
}
double robust_slope(double r) {
  if (std::abs(r) < 1e-9) return 1;
  const double s = r / kRobustScale;
  return std::abs(r) / (std::sqrt(1 + s * s) * std::abs(robust(r)));
}
// The weight that makes a square of this loss, for reweighted refits.
double robust_weight(double r) {
  const double s = r / kRobustScale;
  return 1 / std::sqrt(1 + s * s);
}

class RowsCost final : public ceres::CostFunction {
 public:
  RowsCost(const Model& model, Vector weights, int parameters) : model_(model), weights_(std::move(weights)) {
    set_num_residuals(static_cast<int>(weights_.size()));
    mutable_parameter_block_sizes()->push_back(parameters);
  }
  bool Evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    const Vector r = model_.residuals(blocks[0]);
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      if (!std::isfinite(r[i])) return false;
      residuals[i] = std::sqrt(weights_[i]) * robust(r[i]);
    }
    if (jacobians == nullptr || jacobians[0] == nullptr) return true;
    const Matrix d = model_.derivatives(blocks[0], r);
    for (Eigen::Index i = 0; i < d.rows(); ++i)
      for (Eigen::Index p = 0; p < d.cols(); ++p)
        jacobians[0][i * d.cols() + p] = std::sqrt(weights_[i]) * robust_slope(r[i]) * d(i, p);
    return true;
  }

 private:
  const Model& model_;
  Vector weights_;
};

// Pulls a parameter weakly to its start, so that what no row shows stays where data sheets put it.
class PriorCost final : public ceres::CostFunction {
 public:
  PriorCost(std::vector<double> starts, std::vector<double> strengths)
      : starts_(std::move(starts)), strengths_(std::move(strengths)) {
    set_num_residuals(static_cast<int>(starts_.size()));
    mutable_parameter_block_sizes()->push_back(static_cast<int>(starts_.size()));
  }
  bool Evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    const std::size_t n = starts_.size();
    for (std::size_t p = 0; p < n; ++p) residuals[p] = strengths_[p] * (blocks[0][p] - starts_[p]);
    if (jacobians != nullptr && jacobians[0] != nullptr)
      for (std::size_t i = 0; i < n * n; ++i) jacobians[0][i] = i % (n + 1) == 0 ? strengths_[i / n] : 0;
    return true;
  }

 private:
  std::vector<double> starts_, strengths_;
};

std::vector<const FitParameter*> chosen(const std::vector<std::string>& only) {
  std::vector<const FitParameter*> result;
  for (const FitParameter& parameter : fit_parameters())
    if (only.empty() || std::find(only.begin(), only.end(), parameter.key) != only.end()) result.push_back(&parameter);
  for (const std::string& key : only) {
    const bool known =
        std::any_of(result.begin(), result.end(), [&](const FitParameter* parameter) { return key == parameter->key; });
    if (known) continue;
    std::string names;
    for (const FitParameter& parameter : fit_parameters()) names += (names.empty() ? "" : ", ") + std::string(parameter.key);
    throw InputError(fmt::format("--only {}: nothing of that name is fitted; there are {}", key, names));
  }
  return result;
}

// The parameters' change that fits the rows with weight > 0 best, from derivatives at the solution.
Vector refit(const Vector& residuals, const Matrix& derivatives, const Vector& weights, const Vector& pull,
             const Vector& offset) {
  Vector change = Vector::Zero(derivatives.cols());
  for (int round = 0; round < kRefits; ++round) {
    const Vector r = residuals + derivatives * change;
    Vector w = weights;
    for (Eigen::Index i = 0; i < r.size(); ++i) w[i] *= robust_weight(r[i]);
    const Matrix normal = derivatives.transpose() * w.asDiagonal() * derivatives + Matrix(pull.asDiagonal());
    const Vector right = -(derivatives.transpose() * w.asDiagonal() * residuals) - pull.cwiseProduct(offset);
    change = normal.ldlt().solve(right);
  }
  return change;
}

struct LeftOut {
  const std::vector<FitRow>& rows;
  const Vector &residuals, &weights, &pull, &offset;
  const Matrix& derivatives;

  // Predictions of the rows in `out` by a fit on the others.
  void predict(const std::vector<bool>& out, std::vector<double>& predicted) const {
    Vector kept = weights;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (out[i]) kept[static_cast<Eigen::Index>(i)] = 0;
    const Vector r = residuals + derivatives * refit(residuals, derivatives, kept, pull, offset);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (out[i]) predicted[i] = *rows[i].row().step_s * std::exp(r[static_cast<Eigen::Index>(i)]);
  }
};

void cross_validate(const LeftOut& left_out, int folds, Fit& result) {
  const std::vector<FitRow>& rows = left_out.rows;
  std::vector<double> predicted(rows.size());
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<bool> out(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = static_cast<int>(i % static_cast<std::size_t>(folds)) == fold;
    left_out.predict(out, predicted);
  }
  result.folds = errors_of(predicted, result.measured_s);
  std::map<std::string, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < rows.size(); ++i) members[rows[i].row().source].push_back(i);
  for (const auto& [source, indices] : members) {
    std::vector<bool> out(rows.size());
    for (const std::size_t i : indices) out[i] = true;
    std::vector<double> in_sample, measured, without;
    if (members.size() > 1) left_out.predict(out, predicted);
    for (const std::size_t i : indices) {
      in_sample.push_back(result.predicted_s[i]);
      measured.push_back(result.measured_s[i]);
      without.push_back(predicted[i]);
    }
    result.by_source[source] = errors_of(in_sample, measured);
    if (members.size() > 1) result.without_own[source] = errors_of(without, measured);
  }
}

ceres::Solver::Options solver_options(const FitOptions& options) {
  ceres::Solver::Options o;
  o.linear_solver_type = ceres::DENSE_QR;
  o.max_num_iterations = options.iterations;
  o.function_tolerance = 1e-4;  // of the loss: far below what an error figure shows
  o.logging_type = ceres::SILENT;
  return o;
}

}  // namespace

bool fit_available() { return true; }

Fit fit(const std::vector<FitRow>& rows, const Calibration& start, const FitOptions& options) {
  const std::vector<const FitParameter*> parameters = chosen(options.only);
  if (rows.size() <= parameters.size())
    throw InputError(fmt::format("{} rows cannot say what {} numbers are; give more rows, or fewer numbers with --only",
                                 rows.size(), parameters.size()));
  const Model model(rows, start, parameters);
  const Vector weights = row_weights(rows);
  std::vector<double> logs, starts, strengths;
  for (const FitParameter* p : parameters) {
    starts.push_back(std::log(std::clamp(p->get(start), p->low, p->high)));
    strengths.push_back(kRobustScale / p->spread);  // a start off by its spread weighs as one row off by the robust scale
  }
  logs = starts;
  ceres::Problem problem;
  const int size = static_cast<int>(parameters.size());
  problem.AddResidualBlock(new RowsCost(model, weights, size), nullptr, logs.data());
  problem.AddResidualBlock(new PriorCost(starts, strengths), nullptr, logs.data());
  for (int p = 0; p < size; ++p) {
    problem.SetParameterLowerBound(logs.data(), p, std::log(parameters[static_cast<std::size_t>(p)]->low));
    problem.SetParameterUpperBound(logs.data(), p, std::log(parameters[static_cast<std::size_t>(p)]->high));
  }
  Fit result;
  for (const FitRow& row : rows) {
    result.row_ids.push_back(row.row().id);
    result.measured_s.push_back(*row.row().step_s);
  }
  const auto predictions = [&](const Vector& r) {
    std::vector<double> predicted;
    for (std::size_t i = 0; i < rows.size(); ++i)
      predicted.push_back(result.measured_s[i] * std::exp(r[static_cast<Eigen::Index>(i)]));
    return predicted;
  };
  result.before = errors_of(predictions(model.residuals(logs.data())), result.measured_s);
  ceres::Solver::Summary summary;
  ceres::Solve(solver_options(options), &problem, &summary);
  result.iterations = static_cast<int>(summary.iterations.size());
  result.termination = ceres::TerminationTypeToString(summary.termination_type);
  result.calibration = model.calibration(logs.data());
  const Vector residuals = model.residuals(logs.data());
  const Matrix derivatives = model.derivatives(logs.data(), residuals);
  result.predicted_s = predictions(residuals);
  result.after = errors_of(result.predicted_s, result.measured_s);

  Vector pull(size), offset(size), w = weights;
  for (int p = 0; p < size; ++p) {
    const auto i = static_cast<std::size_t>(p);
    pull[p] = strengths[i] * strengths[i];
    offset[p] = logs[i] - starts[i];
  }
  for (Eigen::Index i = 0; i < w.size(); ++i) w[i] *= robust_weight(residuals[i]);
  const double variance =
      std::max(kNoise * kNoise, residuals.cwiseProduct(residuals).cwiseProduct(w).sum() / std::max(1.0, w.sum() - size));
  const Matrix covariance = variance * Matrix(derivatives.transpose() * w.asDiagonal() * derivatives +
                                              Matrix(pull.asDiagonal()) * (variance / (kRobustScale * kRobustScale)))
                                           .inverse();
  for (int p = 0; p < size; ++p) {
    const auto i = static_cast<std::size_t>(p);
    FittedParameter fitted;
    fitted.parameter = parameters[i];
    fitted.start = std::exp(starts[i]);
    fitted.value = std::exp(logs[i]);
    const double relative = std::sqrt(covariance(p, p));
    fitted.uncertainty = fitted.value * relative;
    fitted.determined = relative < kUndetermined * parameters[i]->spread;
    fitted.at_bound = fitted.value < parameters[i]->low * 1.001 || fitted.value > parameters[i]->high * 0.999;
    result.parameters.push_back(fitted);
  }
  cross_validate({rows, residuals, weights, pull, offset, derivatives}, options.folds, result);
  return result;
}

}  // namespace panpipe
