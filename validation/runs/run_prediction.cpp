#include "validation/runs/run_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/error.hpp"
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

void predict_row(const CalibrationChoice& calibrations, CalibrationCache& cache, RunPrediction& run) {
  const RunScenario written = scenario_of(run.row, calibrations.of(run.row.gpu));
  run.assumed = written.assumed;
  run.skipped = written.skipped;
  run.scenario = written.text;
  if (!run.skipped.empty()) return;
  try {
    Scenario scenario = parse_scenario(written.text, run.row.id, data_directory());
    std::vector<Calibration> numbers;
    for (const DeviceType& type : scenario.cluster.types) numbers.push_back(cache.of(type));
    const Experiment experiment(std::move(scenario), std::move(numbers));
    const Plan plan = experiment.plan("");
    const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
    StepFigures figures = step_figures(graph, experiment.scenario, plan);
    run.predicted_s = written.rolling ? figures.step_period_s : figures.step_time_s;
    run.predicted_peak_gib = peak_of_kind(experiment.scenario.framework, figures.peak_memory_bytes, run.row.peak_kind) / kGib;
    run.parameters = static_cast<double>(experiment.workload.parameters);
    run.terms = terms_of(graph, figures.exposed_communication_s, run.predicted_s);
    run.kind = std::move(figures.kind);
  } catch (const InputError& error) {
    run.skipped = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    run.skipped = error.what();
  }
}

std::optional<bool> lies_in(const StepInterval& interval, const RunPrediction& run) {
  if (!run.error() || interval.stands_on.runs == 0) return std::nullopt;
  const double step = *run.row.step_s;
  return interval.low * run.predicted_s <= step && step <= interval.high * run.predicted_s;
}

}  // namespace

std::optional<double> RunPrediction::error() const {
  if (!predicted() || !row.step_s) return std::nullopt;
  return predicted_s / *row.step_s - 1;
}

std::optional<bool> RunPrediction::inside() const { return lies_in(interval, *this); }
std::optional<bool> RunPrediction::inside_elsewhere() const { return lies_in(elsewhere, *this); }

std::optional<double> RunPrediction::peak_error() const {
  if (!predicted() || !row.peak_gib) return std::nullopt;
  return predicted_peak_gib / *row.peak_gib - 1;
}

double peak_of_kind(const Framework& framework, double peak_bytes, const std::string& kind) {
  if (kind.empty() || kind == "device") return peak_bytes;
  const double reserved = std::max(0.0, peak_bytes - static_cast<double>(framework.context.base()));
  return kind == "reserved" ? reserved : reserved / framework.allocator_factor;
}

std::map<std::string, double> read_left_out(const std::vector<std::string>& files) {
  std::map<std::string, double> seconds;
  for (const std::string& file : files) {
    const CsvTable table = load_csv(file);
    const auto column = [&](const char* name) {
      const auto found =
          std::find_if(table.heading.begin(), table.heading.end(), [&](const CsvCell& cell) { return cell.text == name; });
      if (found == table.heading.end())
        throw InputError(fmt::format("{}: no column '{}'; it is no table of rows left out, as a fit writes them", file, name));
      return static_cast<std::size_t>(found - table.heading.begin());
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
  });
  return runs;
}

void judge(std::vector<RunPrediction>& runs, const EvidenceTable& table) {
  std::map<std::pair<std::string, Likeness>, std::pair<StepInterval, StepInterval>> known;  // many rows are alike
  for (RunPrediction& run : runs) {
    if (!run.predicted()) continue;
    const auto [place, is_new] = known.try_emplace({run.row.source, run.kind});
    if (is_new)
      place->second = {table.interval(run.kind, run.row.source), table.interval(run.kind, run.row.source, run.kind.device)};
    std::tie(run.interval, run.elsewhere) = place->second;
  }
}

}  // namespace panpipe::validation
