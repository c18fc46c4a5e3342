#include "app/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/option_fault.hpp"
#include "base/text/percent.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/given_evidence.hpp"
#include "costmodel/prediction/run_of_step.hpp"
#include "jobs/stated_options.hpp"

namespace panpipe::app {
namespace {

constexpr double kTenth = 1.2816;  // deviations from the median to the quantile of 10 %
// Student's quantile of 10 % by Fisher's expansion, to 1 % from four values on: (z^3 + z) / 4 = 0.847.
double tenth_of(std::size_t values) { return kTenth + 0.847 / static_cast<double>(values - 1); }

constexpr double kAlarmDeviations = 3, kLeastAlarm = 0.02;
constexpr double kNotableLoss = 0.04;  // of the run's time

struct Spread {
  double mean = 0, deviation = 0;
};
Spread spread_of_logs(const std::vector<double>& values, std::size_t count) {
  Spread spread;
  for (std::size_t i = 0; i < count; ++i) spread.mean += std::log(values[i]) / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) spread.deviation += std::pow(std::log(values[i]) - spread.mean, 2);
  spread.deviation = std::sqrt(spread.deviation / static_cast<double>(count - 1));
  return spread;
}

// The deviation of a mean like the parts' about theirs.
double of_another(const Spread& spread, std::size_t count) {
  return spread.deviation * std::sqrt(1 + 1 / static_cast<double>(count));
}

// A straight line through the logarithms of the parts, by least squares.
struct Trend {
  double slope = 0, last = 0, deviation = 0;  // of one part to the next; at the last part; of the parts about the line
  bool drifts = false;
};
Trend trend_of(const std::vector<double>& levels) {
  const auto n = static_cast<double>(levels.size());
  const double mean = spread_of_logs(levels, levels.size()).mean, middle = (n - 1) / 2, squares = n * (n * n - 1) / 12;
  Trend trend;
  for (std::size_t i = 0; i < levels.size(); ++i)
    trend.slope += (static_cast<double>(i) - middle) * std::log(levels[i]) / squares;
  for (std::size_t i = 0; i < levels.size(); ++i)
    trend.deviation += std::pow(std::log(levels[i]) - mean - trend.slope * (static_cast<double>(i) - middle), 2);
  trend.deviation = std::sqrt(trend.deviation / (n - 2));
  trend.last = mean + trend.slope * middle;
  // Student's quantiles of few parts are larger: about one steady run in a thousand passes for a drift.
  const double most = (kAlarmDeviations + 1 + 8 / (n - 2)) * trend.deviation / std::sqrt(squares);
  trend.drifts = std::abs(trend.slope) * (n - 1) > kLeastAlarm && std::abs(trend.slope) > most;
  return trend;
}

void set_steps(const ForecastRequest& request, const std::optional<RunCost>& run, Forecast& forecast) {
  const jobs::LoggedRun& logged = forecast.log.log.run;
  if (request.steps > 0)
    forecast.steps = request.steps, forecast.steps_origin = "--steps";
  else if (logged.planned_steps > 0)
    forecast.steps = logged.planned_steps, forecast.steps_origin = "the log";
  else if (run)
    forecast.steps = std::llround(std::ceil(run->steps)), forecast.steps_origin = "the scenario";
  else
    throw option_fault("steps", fmt::format("{}: how many steps the run will have is not known", forecast.log.log.file),
                       "--steps N states it, or `run: {tokens: ...}` of --scenario S", code::kMissingKey);
  forecast.steps_left = std::max(0LL, forecast.steps - logged.last_step);
}

void note_what_counts(Forecast& forecast) {
  const jobs::TrainingLog& log = forecast.log.log;
  if (log.runs > 1)
    forecast.notes.push_back(fmt::format("the log holds {} runs, and this is number {}, steps {} to {}; --run N chooses another",
                                         log.runs, log.run_number, log.run.first_step, log.run.last_step));
  if (log.run.measured.steps == 1)
    forecast.notes.push_back("one step counts, which may be the first of the run and longer than the others: ten steps say more");
}

// By the run's own variation, at the end of a drift: its parts are alike, and what is left is one more of them. A log of few
// steps states too little of that; then by how much other runs of one job differ.
void set_step(Forecast& forecast) {
  const jobs::LoggedRun& run = forecast.log.log.run;
  const std::vector<double>& levels = run.measured.levels_s;
  double narrow = 0, wide = 0, middle = run.mean_s;
  if (!levels.empty()) {
    Spread spread = spread_of_logs(levels, levels.size());
    if (const Trend trend = trend_of(levels); trend.drifts) {
      spread.deviation = trend.deviation;
      middle = std::exp(trend.last) * run.mean_s / run.measured.median_s;
    }
    wide = tenth_of(levels.size()) * of_another(spread, levels.size());
    narrow = -wide;
  } else if (forecast.after_s) {
    narrow = std::log(forecast.after_s->p10 / forecast.after_s->p50);
    wide = std::log(forecast.after_s->p90 / forecast.after_s->p50);
  } else {
    // As the mean steps of runs that are otherwise alike, and no less than the steps of this one.
    std::vector<StepDistribution::Normal> runs;
    for (const Weighted& scatter : shipped_evidence().prior.scatter) runs.push_back({scatter.weight, 0, scatter.value});
    const StepDistribution of_runs(std::move(runs), 1);
    narrow = std::min(of_runs.quantile(0.1), std::log(run.measured.p10_s / run.measured.median_s));
    wide = std::max(of_runs.quantile(0.9), std::log(run.measured.p90_s / run.measured.median_s));
  }
  forecast.step_s = {middle * std::exp(narrow), middle, middle * std::exp(wide)};
}

// What was known before the log: the pieces of evidence without the log itself.
GivenEvidence known_before(const PlannedScenario& planned, const std::string& log) {
  const auto& given = planned.experiment.scenario.given_evidence;
  if (!given) return {};
  GivenEvidence others = *given;
  std::erase_if(others.pieces, [&](const GivenPiece& piece) { return same_contents(piece.file, log); });
  return others;
}

GivenPiece piece_of(const Forecast& forecast) {
  const LoggedPrediction& predicted = *forecast.log.predicted;
  ComparedStep step;
  static_cast<StepTraits&>(step) = predicted.traits;
  step.off = std::log(forecast.log.log.run.measured.median_s / predicted.metrics.step_time_s);
  GivenPiece piece;
  piece.file = forecast.log.log.file;
  piece.kind = "log";
  piece.observations = {step};
  return piece;
}

// The command that shows where the time goes.
std::string parts_command(const LogRequest& log) {
  std::string command = "panpipe import log " + (log.file == "/dev/stdin" ? "-" : log.file);
  if (!log.scenario.empty()) command += " --job " + log.scenario;
  for (const auto& [name, value] : jobs::stated_values(log.job)) command += fmt::format(" --{} {}", name, value);
  return log.run > 0 ? command + fmt::format(" --run {}", log.run) : command;
}

// Against the job's prediction, by the rules by which evidence counts.
void set_posterior(const ForecastRequest& request, const PlannedScenario& planned, Forecast& forecast) {
  const LoggedPrediction& predicted = *forecast.log.predicted;
  if (predicted.metrics.step_time_p90_s <= 0) return;
  const StepTraits& step = predicted.traits;
  const UncertaintyPrior& prior = shipped_evidence().prior;
  const double predicted_s = predicted.metrics.step_time_s;
  GivenEvidence given = known_before(planned, request.log.file);
  const StepDistribution before = StepPosterior(prior, weigh(given, prior, step).counting, step.of).distribution(step);
  forecast.before_s = quantiles_of(predicted_s, before);
  given.pieces.push_back(piece_of(forecast));
  const WeighedEvidence weighed = weigh(given, prior, step);
  const std::string& left_out = weighed.pieces.back().left_out;
  if (left_out.empty())
    forecast.after_s = quantiles_of(predicted_s, StepPosterior(prior, weighed.counting, step.of).distribution(step));
  const double rank = before.below(given.pieces.back().observations.front().off);
  if (left_out.empty() && rank > 0.025 && rank < 0.975) return;
  const bool slow = rank > 0.5;
  const double share = 100 * (slow ? rank : 1 - rank);
  forecast.alarms.push_back(fmt::format("{} than {} % of such jobs are expected to be: {} a step, predicted {} to {}; {}",
                                        slow ? "slower" : "faster", share > 99.9 ? "99.9" : fmt::format("{:.1f}", share),
                                        time_text(forecast.log.log.run.measured.median_s), time_text(forecast.before_s->p10),
                                        time_text(forecast.before_s->p90),
                                        !left_out.empty() ? left_out
                                        : slow            ? parts_command(request.log) + " compares its parts"
                                                          : "is the scenario that of this job?"));
}

// The last part of the run against those before it.
void watch_drift(Forecast& forecast) {
  const jobs::LoggedRun& run = forecast.log.log.run;
  const std::vector<double>& levels = run.measured.levels_s;
  const Trend trend = levels.empty() ? Trend() : trend_of(levels);
  if (trend.drifts) {
    forecast.alarms.push_back(fmt::format("the run drifts: {} from its beginning to its end; the rest is counted at {} a step",
                                          signed_percent(std::expm1(trend.slope * static_cast<double>(levels.size() - 1))),
                                          time_text(forecast.step_s.p50)));
  } else if (!levels.empty()) {
    const std::size_t before = levels.size() - 1;
    const Spread spread = spread_of_logs(levels, before);
    const double change = std::log(levels.back()) - spread.mean;
    if (std::abs(change) > std::max(kLeastAlarm, kAlarmDeviations * of_another(spread, before)))
      forecast.alarms.push_back(fmt::format(
          "the run drifts: the last {} logged steps take {} a step, {} against those before; if that stays, {} are left",
          run.measured.steps / static_cast<long long>(levels.size()), time_text(levels.back()),
          signed_percent(std::expm1(change)),
          long_time_text(static_cast<double>(forecast.steps_left) * levels.back() * run.mean_s / run.measured.median_s)));
  }
  if (const double lost = 1 - run.measured.median_s / run.mean_s; lost > kNotableLoss)
    forecast.alarms.push_back(fmt::format("{:.0f} % of the time goes into steps that are longer than the median", 100 * lost));
}

// With checkpoints and failures: in proportion to the whole run's time at such a step.
void set_rest(const PlannedScenario* planned, Metrics figures, Forecast& forecast) {
  const auto left = static_cast<double>(forecast.steps_left);
  const Quantiles& step = forecast.step_s;
  forecast.left_s = {left * step.p10, left * step.p50, left * step.p90};
  if (planned == nullptr || !figures.run || !(figures.run->steps > 0)) return;
  figures.step_time_s = step.p50, figures.step_time_p10_s = step.p10, figures.step_time_p50_s = step.p50,
  figures.step_time_p90_s = step.p90;
  state_run(figures, planned->graph, planned->experiment.scenario);
  // The scenario may state another length than the log.
  RunCost& run = *(forecast.run = figures.run);
  const double whole = static_cast<double>(forecast.steps) / run.steps, share = left / run.steps;
  forecast.left_s = {run.time_p10_s.value_or(run.time_s) * share, run.time_s * share,
                     run.time_p90_s.value_or(run.time_s) * share};
  if (run.cost)
    forecast.cost_left = {run.cost_p10.value_or(*run.cost) * share, *run.cost * share, run.cost_p90.value_or(*run.cost) * share};
  if (std::abs(whole - 1) > 1e-3)
    forecast.notes.push_back(fmt::format("the scenario's run has {:.0f} steps; time and money are of the {} that {} states",
                                         run.steps, forecast.steps, forecast.steps_origin));
  run.time_s *= whole;
  if (run.cost) *run.cost *= whole;
}

}  // namespace

Forecast forecast(const ForecastRequest& request) {
  Forecast forecast;
  LogAnswer& log = forecast.log = import_log(request.log);
  for (const std::string& why : log.contradictions()) log.open.push_back({why, ""});
  const PlannedScenario* planned = log.other_job.empty() ? log.planned.get() : nullptr;  // another job's money is another
  const Metrics figures = planned != nullptr ? log.predicted->metrics : Metrics();
  set_steps(request, figures.run, forecast);
  if (planned != nullptr && log.other_trainer.empty()) set_posterior(request, *planned, forecast);
  note_what_counts(forecast);
  set_step(forecast);
  set_rest(planned, figures, forecast);
  watch_drift(forecast);
  return forecast;
}

}  // namespace panpipe::app
