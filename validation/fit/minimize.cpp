#include "validation/fit/minimize.hpp"

#include <ceres/ceres.h>

#include <limits>

#include "base/error.hpp"

namespace panpipe::validation {
namespace {

// Logarithms of step times are nearly linear in those of the numbers: within this distance derivatives are corrected by what was
// seen on the way (Broyden 1965), farther away they are taken anew.
constexpr double kNear = 0.15;
constexpr double kNothing = 1e-4;  // a step of this length gives no derivatives
constexpr double kEnough = 1e-4;   // of the loss: far below what an error figure shows

class RowsCost final : public ceres::CostFunction {
 public:
  RowsCost(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Prior& prior, Minimum& best,
           const MinimizeOptions& options)
      : model_(model), weights_(weights), loss_(loss), prior_(prior), best_(best), options_(options) {
    set_num_residuals(static_cast<int>(weights.size() + prior.starts.size()));
    mutable_parameter_block_sizes()->push_back(static_cast<int>(prior.starts.size()));
    if (best.derivatives.size() > 0) adopt(best.logs, best.residuals, best.derivatives);
  }

  bool Evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    const Vector logs = Eigen::Map<const Vector>(blocks[0], prior_.starts.size());
    const Vector r = known(logs) ? last_residuals_ : model_.residuals(logs, weights_);
    if (model_.stopped()) return false;
    double cost = 0;
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      if (!std::isfinite(r[i])) return false;
      residuals[i] = std::sqrt(weights_[i]) * loss_.root(r[i]);
      cost += residuals[i] * residuals[i] / 2;
    }
    for (Eigen::Index p = 0; p < logs.size(); ++p) {
      residuals[r.size() + p] = prior_.strengths[p] * (logs[p] - prior_.starts[p]);
      cost += residuals[r.size() + p] * residuals[r.size() + p] / 2;
    }
    follow(logs, r);
    keep_best(logs, r, cost);
    return jacobians == nullptr || jacobians[0] == nullptr || fill(logs, r, jacobians[0]);
  }

 private:
  bool known(const Vector& logs) const { return last_logs_.size() > 0 && last_logs_ == logs; }

  void adopt(const Vector& logs, const Vector& r, const Matrix& derivatives) const {
    exact_at_ = last_logs_ = logs;
    last_residuals_ = r;
    derivatives_ = derivatives;
  }

  // Corrects the derivatives along the step from the last evaluation to this one.
  void follow(const Vector& logs, const Vector& r) const {
    if (derivatives_.size() > 0 && !known(logs)) {
      const Vector step = logs - last_logs_;
      if (step.squaredNorm() < kNothing * kNothing) return;  // the difference would be rounding
      derivatives_ += (r - last_residuals_ - derivatives_ * step) * step.transpose() / step.squaredNorm();
    }
    last_logs_ = logs;
    last_residuals_ = r;
  }

  void keep_best(const Vector& logs, const Vector& r, double cost) const {
    if (best_.residuals.size() > 0 && best_.cost <= cost) return;
    best_.logs = logs;
    best_.residuals = r;
    best_.cost = cost;
    if (options_.progress) options_.progress(best_);
  }

  bool fill(const Vector& logs, const Vector& r, double* out) const {
    if (derivatives_.size() == 0 || (logs - exact_at_).cwiseAbs().maxCoeff() > kNear) {
      const Matrix exact = model_.derivatives(logs, r, weights_);
      if (model_.stopped()) return false;
      adopt(logs, r, exact);
    }
    best_.derivatives = derivatives_;
    Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> jacobian(out, r.size() + logs.size(),
                                                                                                logs.size());
    jacobian.setZero();
    for (Eigen::Index i = 0; i < r.size(); ++i)
      jacobian.row(i) = std::sqrt(weights_[i]) * loss_.slope_of_root(r[i]) * derivatives_.row(i);
    for (Eigen::Index p = 0; p < logs.size(); ++p) jacobian(r.size() + p, p) = prior_.strengths[p];
    return true;
  }

  const RowModel& model_;
  const Vector& weights_;
  const RobustLoss& loss_;
  const Prior& prior_;
  Minimum& best_;
  const MinimizeOptions& options_;
  mutable Vector exact_at_, last_logs_, last_residuals_;
  mutable Matrix derivatives_;
};

ceres::Solver::Options solver_options(int iterations) {
  ceres::Solver::Options o;
  o.linear_solver_type = ceres::DENSE_QR;
  o.max_num_iterations = iterations;
  o.function_tolerance = kEnough;
  o.logging_type = ceres::SILENT;
  return o;
}

// One search with Ceres; the best that it saw is in `best`.
void search(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Prior& prior,
            const MinimizeOptions& options, Minimum& best) {
  std::vector<double> logs(best.logs.data(), best.logs.data() + best.logs.size());
  ceres::Problem problem;
  problem.AddResidualBlock(new RowsCost(model, weights, loss, prior, best, options), nullptr, logs.data());
  for (std::size_t p = 0; p < logs.size(); ++p) {
    problem.SetParameterLowerBound(logs.data(), static_cast<int>(p), std::log(model.parameters()[p]->low));
    problem.SetParameterUpperBound(logs.data(), static_cast<int>(p), std::log(model.parameters()[p]->high));
  }
  ceres::Solver::Summary summary;
  ceres::Solve(solver_options(options.iterations - best.iterations), &problem, &summary);
  best.iterations += static_cast<int>(summary.iterations.size());
  best.converged = summary.termination_type == ceres::CONVERGENCE;
}

}  // namespace

Minimum minimize(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Prior& prior, const Minimum& from,
                 const MinimizeOptions& options) {
  Minimum best = from;
  best.cost = std::numeric_limits<double>::infinity();
  best.iterations = 0;
  for (int round = 0; round <= options.renewals; ++round) {
    const double before = best.cost;
    search(model, weights, loss, prior, options, best);
    const bool settled = std::isfinite(before) && before - best.cost <= kEnough * before;
    if (model.stopped() || settled || round == options.renewals || best.iterations >= options.iterations) break;
    best.derivatives = model.derivatives(best.logs, best.residuals, weights);
    if (model.stopped()) break;
  }
  if (!std::isfinite(best.cost)) throw NoAnswer("stopped before the rows were predicted once");
  return best;
}

}  // namespace panpipe::validation
