#include "validation/runs/run_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/parallel_for.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "validation/runs/calibration_choice.hpp"
#include "validation/runs/csv_table.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe::validation {
namespace {

constexpr double kGib = 1073741824.0;

// Many rows name the same few calibrations: each is read once.
class CalibrationCache {
 public:
  Calibration of(const DeviceType& type) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(type.calibration);
    if (!type.calibration.empty() && found != known_.end()) return found->second;
    Calibration read = calibration_for(type);
    if (!type.calibration.empty()) known_[type.calibration] = read;
    return read;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Calibration> known_;
};

// The columns by which rows are grouped, from what a row's scenario states.
void fill_columns(const Scenario& scenario, const Plan& plan, RunRow& row) {
  if (row.gpu.empty()) row.gpu = chips_of(scenario.cluster);
  if (row.framework.empty()) row.framework = scenario.framework.name;
  if (row.precision.empty()) row.precision = name_of(scenario.precision);
  if (!row.gpus) row.gpus = static_cast<int>(plan.devices.size());
  row.tp = plan.tensor, row.pp = plan.pipeline, row.dp = plan.data;
  row.zero = plan.zero;
}

void predict_row(const CalibrationChoice& calibrations, CalibrationCache& cache, RunPrediction& run) {
  const RunScenario written = scenario_of(run.row, calibrations.of(run.row.gpu));
  run.assumed = written.assumed;
  run.skipped = written.skipped;
  run.scenario = written.text;
  if (!run.skipped.empty()) return;
  try {
    Scenario scenario = parse_scenario(written.text, run.row.id, written.folder.empty() ? data_directory() : written.folder);
    std::vector<Calibration> numbers;
    for (const DeviceType& type : scenario.cluster.types) numbers.push_back(cache.of(type));
    const Experiment experiment(std::move(scenario), std::move(numbers));
    const Plan plan = experiment.plan("");
    if (!run.row.scenario.empty()) fill_columns(experiment.scenario, plan, run.row);
    // The allocator is replayed where a peak is compared, or a factor refuses the run: it takes longer than all
    // the rest.
    TaskGraph graph = run.row.peak_gib ? answered(experiment.scenario, plan, experiment.model)
                                       : lower(experiment.scenario, plan, experiment.model);
    StepFigures figures = step_figures(graph, experiment.scenario, plan);
    if (!figures.fits && !run.row.peak_gib) {
      graph = answered(experiment.scenario, plan, experiment.model);
      figures = step_figures(graph, experiment.scenario, plan);
    }
    run.predicted_s = written.rolling ? figures.step_period_s : figures.step_time_s;
    run.predicted_peak_gib = peak_of_kind(figures, run.row.peak_kind) / kGib;
    run.fits = figures.fits;
    run.parameters = static_cast<double>(experiment.workload.parameters);
    run.terms = terms_of(graph, figures.exposed_communication_s, run.predicted_s);
    run.traits = std::move(figures.traits);
  } catch (const InputError& error) {
    run.skipped = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    run.skipped = error.what();
  }
}

}  // namespace

ComparedStep RunPrediction::compared() const { return {traits, std::log(*row.step_s / by_model_s)}; }

std::optional<double> RunPrediction::error() const {
  if (!predicted() || !row.step_s || given) return std::nullopt;
  return predicted_s / *row.step_s - 1;
}

std::optional<bool> RunPrediction::inside() const {
  if (!error() || predicted_p90_s <= 0) return std::nullopt;
  return predicted_p10_s <= *row.step_s && *row.step_s <= predicted_p90_s;
}

std::optional<double> RunPrediction::peak_error() const {
  if (!predicted() || !row.peak_gib) return std::nullopt;
  return predicted_peak_gib / *row.peak_gib - 1;
}

std::map<std::string, double> read_left_out(const std::vector<std::string>& files) {
  std::map<std::string, double> seconds;
  for (const std::string& file : files) {
    const CsvTable table = load_csv(file);
    const auto column = [&](const char* name) {
      if (const auto place = table.place_of(name)) return *place;
      throw InputError(fmt::format("{}: no column '{}'; it is no table of rows left out, as a fit writes them", file, name));
    };
    const std::size_t id = column("id"), time = column("left_out_s");
    for (const std::vector<CsvCell>& row : table.rows) {
      const Parsed<double> value = parse_number(row[time].text);
      if (!value.value || *value.value <= 0)
        throw InputError(
            {diagnostic_at(table, row[time], fmt::format("'{}' is not a number of seconds above 0", row[time].text))});
      seconds[row[id].text] = *value.value;
    }
  }
  return seconds;
}

std::vector<RunPrediction> predict(const std::vector<RunRow>& rows, const PredictionOptions& options) {
  const CalibrationChoice calibrations(options.calibrations);
  CalibrationCache cache;
  std::vector<RunPrediction> runs(rows.size());
  parallel_for(rows.size(), options.threads, [&](std::size_t i, std::size_t) {
    runs[i].row = rows[i];
    predict_row(calibrations, cache, runs[i]);
    if (const auto found = options.left_out.find(rows[i].id); found != options.left_out.end())
      runs[i].predicted_s = found->second;
    runs[i].by_model_s = runs[i].predicted_s;
  });
  return runs;
}

void set_intervals(std::vector<RunPrediction>& runs, const UncertaintyPrior& prior, const std::vector<std::string>& given) {
  std::map<std::string, std::vector<ComparedStep>> evidence;  // by source
  for (const std::string& id : given) {
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const RunPrediction& run) { return run.row.id == id; });
    if (found == runs.end()) throw option_fault("given", "no row has the id '" + id + "'", "", code::kUnknownName);
    if (!found->predicted() || !found->row.step_s)
      throw option_fault("given", fmt::format("row '{}' is no evidence: {}", id,
                                              found->predicted() ? "it has no measured step" : found->skipped));
    if (std::exchange(found->given, true)) continue;
    evidence[found->row.source].push_back(found->compared());
  }
  std::map<std::pair<std::string, StepClass>, StepPosterior> posteriors;
  for (RunPrediction& run : runs) {
    if (!run.predicted() || run.given) continue;
    const std::string& source = run.row.source;
    const bool has_evidence = evidence.contains(source);
    const auto posterior = posteriors.try_emplace({has_evidence ? source : "", run.traits.of}, prior,
                                                  has_evidence ? evidence[source] : std::vector<ComparedStep>(), run.traits.of);
    const StepDistribution distribution = posterior.first->second.distribution(run.traits);
    if (has_evidence) run.predicted_s = run.by_model_s * std::exp(distribution.quantile(0.5));
    run.predicted_p10_s = run.by_model_s * std::exp(distribution.quantile(0.1));
    run.predicted_p90_s = run.by_model_s * std::exp(distribution.quantile(0.9));
  }
}

}  // namespace panpipe::validation
