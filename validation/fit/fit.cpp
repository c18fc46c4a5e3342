// The fit from its parts: weights and prior, the minimum, its uncertainty, and its predictions of rows it has not seen.
#include "validation/fit/fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "validation/fit/cluster_factor.hpp"
#include "validation/fit/left_out.hpp"

namespace panpipe::validation {
namespace {

constexpr double kNoise = 0.01;        // of a measured time: uncertainties do not go below what it explains
constexpr double kUndetermined = 0.8;  // of the prior's width: so wide means that the rows determine nothing
constexpr double kOverfit = 1.5;       // times the error in the fit

// Sources of many rows would drown the others. Mean 1.
Vector row_weights(const std::vector<FitRow>& rows, double balance) {
  std::map<std::string, double> count;
  for (const FitRow& row : rows) count[row.row().source] += 1;
  Vector weights(at_index(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) weights[at_index(i)] = std::pow(count[rows[i].row().source], -balance);
  return weights * (static_cast<double>(rows.size()) / weights.sum());
}

std::vector<const FitParameter*> chosen(const std::vector<std::string>& only) {
  std::vector<const FitParameter*> result;
  std::vector<std::string> names;
  for (const FitParameter& parameter : fit_parameters()) {
    names.push_back(parameter.key);
    if ((only.empty() && !parameter.if_named) || std::find(only.begin(), only.end(), parameter.key) != only.end())
      result.push_back(&parameter);
  }
  for (const std::string& key : only)
    if (std::find(names.begin(), names.end(), key) == names.end()) throw unknown_choice("only", key, names);
  return result;
}

class Fitter {
 public:
  Fitter(const std::vector<FitRow>& rows, const Calibration& start, const FitOptions& options)
      : rows_(rows),
        start_(start),
        options_(options),
        loss_{options.robust_scale},
        model_(rows, start_, chosen(options.only), options.stopped),
        weights_(row_weights(rows, options.balance)) {
    const std::size_t count = model_.parameters().size();
    prior_.starts.resize(at_index(count));
    prior_.strengths.resize(at_index(count));
    for (std::size_t p = 0; p < count; ++p) {
      const FitParameter& parameter = *model_.parameters()[p];
      const auto stated = options.spread.find(parameter.key);
      spreads_.push_back(stated == options.spread.end() ? parameter.spread : stated->second);
      prior_.starts[at_index(p)] = std::log(std::clamp(parameter.get(start), parameter.low, parameter.high));
      // A start off by its spread weighs as one row off by the robust scale.
      prior_.strengths[at_index(p)] = loss_.scale / spreads_.back();
    }
    starts_ = prior_.starts;
  }

  Fit run() {
    result_.options = options_;
    for (const FitRow& row : rows_) {
      result_.row_ids.push_back(row.row().id);
      result_.row_sources.push_back(row.row().source);
      result_.row_frameworks.push_back(row.framework());
      result_.measured_s.push_back(*row.row().step_s);
    }
    search();
    state_numbers();
    if (!model_.stopped()) cross_validate();
    result_.interrupted = model_.stopped();
    return std::move(result_);
  }

 private:
  std::vector<double> predictions(const Vector& residuals) const {
    std::vector<double> predicted;
    for (std::size_t i = 0; i < rows_.size(); ++i) predicted.push_back(result_.measured_s[i] * std::exp(residuals[at_index(i)]));
    return predicted;
  }
  ErrorSizes errors(const Vector& residuals) const { return errors_of(predictions(residuals), result_.measured_s); }

  void report_progress(const std::string& doing, double mean) const {
    if (options_.progress) options_.progress({doing, mean});
  }

  void search() {
    if (options_.cluster_factor) {
      result_.before = errors(model_.residuals(starts_, weights_));
      const FactoredStart factored = factored_start(model_, weights_, loss_, starts_);
      prior_.starts = factored.starts;
      result_.cluster_factor = std::exp(factored.log_factor);
    }
    MinimizeOptions options;
    options.iterations = options_.iterations;
    bool first = !options_.cluster_factor;
    options.progress = [&](const Minimum& best) {
      if (first) result_.before = errors(best.residuals);
      first = false;
      report_progress("fit", errors(best.residuals).mean);
    };
    Minimum from;
    from.logs = prior_.starts;
    whole_ = minimize(model_, weights_, loss_, prior_, from, options);
    result_.iterations = whole_.iterations;
    result_.converged = whole_.converged;
  }

  // Values are rounded to what a file shows, and everything reported is of the rounded ones.
  void state_numbers() {
    Vector relative = Vector::Constant(whole_.logs.size(), std::nan(""));
    if (whole_.derivatives.size() > 0) relative = deviations();
    for (std::size_t p = 0; p < model_.parameters().size(); ++p) {
      FittedParameter fitted;
      const FitParameter& parameter = *(fitted.parameter = model_.parameters()[p]);
      fitted.start = std::exp(starts_[at_index(p)]);
      fitted.spread = spreads_[p];
      fitted.value = std::stod(fmt::format("{:.4g}", std::exp(whole_.logs[at_index(p)])));
      fitted.uncertainty = fitted.value * relative[at_index(p)];
      fitted.determined = relative[at_index(p)] < kUndetermined * spreads_[p];
      fitted.at_bound = fitted.value < parameter.low * 1.001 || fitted.value > parameter.high * 0.999;
      whole_.logs[at_index(p)] = std::log(fitted.value);
      result_.parameters.push_back(fitted);
    }
    result_.calibration = model_.calibration(whole_.logs);
    if (!model_.stopped()) {
      const Vector rounded = model_.residuals(whole_.logs, weights_);
      if (!model_.stopped()) whole_.residuals = rounded;
    }
    result_.predicted_s = predictions(whole_.residuals);
    result_.after = errors(whole_.residuals);
  }

  // One standard deviation of every number, as a share of it: from the derivatives and the residuals' own variance.
  Vector deviations() const {
    const Vector& r = whole_.residuals;
    Vector w = weights_;
    for (Eigen::Index i = 0; i < w.size(); ++i) w[i] *= loss_.weight(r[i]);
    const double size = static_cast<double>(prior_.starts.size());
    const double variance = std::max(kNoise * kNoise, r.cwiseProduct(r).cwiseProduct(w).sum() / std::max(1.0, w.sum() - size));
    const Vector pull = prior_.strengths.cwiseAbs2() * (variance / (loss_.scale * loss_.scale));
    const Matrix normal = whole_.derivatives.transpose() * w.asDiagonal() * whole_.derivatives + Matrix(pull.asDiagonal());
    return (variance * normal.inverse()).diagonal().cwiseSqrt();
  }

  void cross_validate() {
    const LeftOut left_out{model_, weights_, loss_, prior_, options_.cluster_factor ? &starts_ : nullptr, whole_};
    Vector residuals = whole_.residuals;
    const auto leave = [&](const std::string& doing, const std::vector<bool>& out) {
      const Vector r = left_out.residuals(out);
      if (model_.stopped()) return;
      std::vector<double> predicted, measured;
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (!out[i]) continue;
        residuals[at_index(i)] = r[at_index(i)];
        measured.push_back(result_.measured_s[i]);
        predicted.push_back(measured.back() * std::exp(r[at_index(i)]));
      }
      report_progress(doing, errors_of(predicted, measured).mean);
    };
    const int folds = std::min(options_.folds, static_cast<int>(rows_.size()));  // of fewer rows each is one
    for (int fold = 0; fold < folds && !model_.stopped(); ++fold) {
      std::vector<bool> out(rows_.size());
      for (std::size_t i = 0; i < rows_.size(); ++i) out[i] = static_cast<int>(i % static_cast<std::size_t>(folds)) == fold;
      leave(fmt::format("fold {} of {}", fold + 1, folds), out);
    }
    if (model_.stopped()) return;
    result_.folds = errors(residuals);
    judge("folds", result_.folds, result_.after);
    by_source(residuals, leave);
  }

  template <class Leave>
  void by_source(Vector& residuals, const Leave& leave) {
    std::map<std::string, std::vector<bool>> members;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::vector<bool>& of = members[rows_[i].row().source];
      of.resize(rows_.size());
      of[i] = true;
    }
    result_.left_out_s.assign(rows_.size(), std::nan(""));
    for (const auto& [source, out] : members) {
      result_.by_source[source] = errors_among(result_.predicted_s, out);
      const bool enough = static_cast<std::size_t>(std::count(out.begin(), out.end(), false)) > model_.parameters().size();
      if (members.size() < 2 || !enough) continue;
      leave("without " + source, out);
      if (model_.stopped()) return;
      const std::vector<double> predicted = predictions(residuals);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i]) result_.left_out_s[i] = predicted[i];
      result_.without_own[source] = errors_among(predicted, out);
      judge(source, result_.without_own[source], result_.by_source[source]);
    }
  }

  ErrorSizes errors_among(const std::vector<double>& predicted, const std::vector<bool>& rows) const {
    std::vector<double> some, measured;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i]) continue;
      some.push_back(predicted[i]);
      measured.push_back(result_.measured_s[i]);
    }
    return errors_of(some, measured);
  }

  void judge(const std::string& what, const ErrorSizes& left_out, const ErrorSizes& in_sample) {
    if (left_out.mean <= kOverfit * in_sample.mean) return;
    result_.overfits.push_back(
        fmt::format("{}: {:.1f} % when left out, {:.1f} % in the fit", what, 100 * left_out.mean, 100 * in_sample.mean));
  }

  const std::vector<FitRow>& rows_;
  const Calibration& start_;
  const FitOptions& options_;
  const RobustLoss loss_;
  const RowModel model_;
  const Vector weights_;
  Vector starts_;  // as given; the prior pulls to these times the cluster's factor
  Prior prior_;
  std::vector<double> spreads_;
  Minimum whole_;
  Fit result_;
};

}  // namespace

bool fit_available() { return true; }

Fit fit(const std::vector<FitRow>& rows, const Calibration& start, const FitOptions& options) {
  const std::size_t numbers = chosen(options.only).size();
  if (rows.size() <= numbers)
    throw InputError(fmt::format("{} row{} cannot determine {} number{}", rows.size(), rows.size() == 1 ? "" : "s", numbers,
                                 numbers == 1 ? "" : "s"),
                     fmt::format("give more rows; or fit fewer numbers, as in --only {}; or let the rows correct predictions "
                                 "without a fit, which one row can do: panpipe estimate SCENARIO --evidence RUNS.csv",
                                 fit_parameters().front().key));
  return Fitter(rows, start, options).run();
}

}  // namespace panpipe::validation
