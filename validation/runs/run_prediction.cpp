#include "validation/runs/run_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe {
namespace {

constexpr double kGib = 1073741824.0;

// Which calibration file a device uses: the one that names it, else one that names no device.
class CalibrationChoice {
 public:
  explicit CalibrationChoice(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      const std::string path = std::filesystem::exists(file) ? std::filesystem::absolute(file).string() : file;
      const Calibration calibration = load_calibration(path, "");
      if (calibration.devices.empty()) general_ = path;
      for (const std::string& gpu : calibration.devices) by_device_[device_file_of(gpu)] = path;
    }
  }
  std::string of(const std::string& gpu) const {
    const auto found = by_device_.find(device_file_of(gpu));
    return found != by_device_.end() ? found->second : general_;
  }

 private:
  std::map<std::string, std::string> by_device_;
  std::string general_;
};

// The pipeline rank whose passes take longest.
int busiest_rank(const TaskGraph& graph) {
  int busiest = 0;
  double most = -1;
  for (int rank = 0; rank < graph.ranks; ++rank) {
    double busy = 0;
    for (auto t = graph.rank_begin[static_cast<std::size_t>(rank)]; t < graph.rank_begin[static_cast<std::size_t>(rank) + 1];
         ++t) {
      const Task& task = graph.tasks[static_cast<std::size_t>(t)];
      if (task.program >= 0 && task.lane == Lane::Compute && task.group_size > 0)  // a group has one program
        busy += graph.programs[static_cast<std::size_t>(task.program)].duration.base();
    }
    if (busy > most) {
      most = busy;
      busiest = rank;
    }
  }
  return busiest;
}

StepTerms terms_of(const TaskGraph& graph, const Metrics& figures, double step) {
  StepTerms terms;
  const auto rank = static_cast<std::size_t>(busiest_rank(graph));
  for (auto t = graph.rank_begin[rank]; t < graph.rank_begin[rank + 1]; ++t) {
    const Task& task = graph.tasks[static_cast<std::size_t>(t)];
    if (task.program < 0 || task.lane != Lane::Compute || task.group_size == 0) continue;
    const Program& program = graph.programs[static_cast<std::size_t>(task.program)];
    const double total = to_duration(program.duration).base();
    if (task.kind == TaskKind::Optimizer) {
      terms.optimizer += total;
      continue;
    }
    const Breakdown& parts = program.breakdown;
    const double tensor = to_duration(program.exposed_communication).base();
    const double known = parts.compute.base() + parts.memory.base();
    terms.products += parts.compute.base();
    terms.traffic += parts.memory.base();
    terms.tensor += tensor;
    terms.host += total - known - tensor;
  }
  const double busy = terms.products + terms.traffic + terms.tensor + terms.host + terms.optimizer;
  for (const DeviceMetrics& device : figures.per_device)
    if (device.rank == static_cast<std::int32_t>(rank)) {
      terms.communication = std::max(0.0, device.exposed_communication_s - terms.tensor);
      break;
    }
  terms.communication = std::min(terms.communication, std::max(0.0, step - busy));
  terms.idle = step - busy - terms.communication;
  return terms;
}

// What PyTorch's allocator has given out (torch.cuda.max_memory_allocated): no context, no fragmentation.
double allocated(const Framework& framework, double peak_bytes) {
  return std::max(0.0, peak_bytes - static_cast<double>(framework.context.base())) / framework.allocator_factor;
}

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
    const TaskGraph graph = lower(experiment.scenario, experiment.plan(""), experiment.model);
    const auto [timeline, figures] = predict(graph, experiment.scenario.cluster);
    run.predicted_s = written.rolling ? step_period(timeline) : figures.step_time_s;
    run.predicted_peak_gib = figures.peak_memory_bytes / kGib;
    if (run.row.peak_kind == "allocated")
      run.predicted_peak_gib = allocated(experiment.scenario.framework, figures.peak_memory_bytes) / kGib;
    run.parameters = static_cast<double>(experiment.workload.parameters);
    run.terms = terms_of(graph, figures, run.predicted_s);
  } catch (const InputError& error) {
    run.skipped = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    run.skipped = error.what();
  }
}

}  // namespace

std::optional<double> RunPrediction::error() const {
  if (!predicted() || !row.step_s) return std::nullopt;
  return predicted_s / *row.step_s - 1;
}

std::optional<double> RunPrediction::peak_error() const {
  if (!predicted() || !row.peak_gib) return std::nullopt;
  return predicted_peak_gib / *row.peak_gib - 1;
}

std::vector<RunPrediction> predict(const std::vector<RunRow>& rows, const PredictionOptions& options) {
  const CalibrationChoice calibrations(options.calibrations);
  CalibrationCache cache;
  std::vector<RunPrediction> runs(rows.size());
  parallel_for(rows.size(), options.threads, [&](std::size_t i, std::size_t) {
    runs[i].row = rows[i];
    predict_row(calibrations, cache, runs[i]);
  });
  return runs;
}

}  // namespace panpipe
