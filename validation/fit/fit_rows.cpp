#include "validation/fit/fit_rows.hpp"

#include <algorithm>
#include <limits>

#include "costmodel/base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/experiment/experiment.hpp"
#include "validation/parallel_for.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe {

struct FitRow::Prepared {
  Experiment experiment;
  Plan plan;
  bool rolling;

  Prepared(const RunScenario& written, const std::string& name)
      : experiment(parse_scenario(written.text, name, data_directory())), plan(experiment.plan("")), rolling(written.rolling) {}
};

FitRow::FitRow(RunRow row) : row_(std::move(row)) {
  const RunScenario written = scenario_of(row_);
  if (!written.skipped.empty()) throw InputError(written.skipped);
  prepared_ = std::make_unique<Prepared>(written, row_.id);
}

FitRow::~FitRow() = default;
FitRow::FitRow(FitRow&&) noexcept = default;

double FitRow::predicted_s(const Calibration& calibration) const {
  const Experiment& experiment = prepared_->experiment;
  const CostModel model(experiment.scenario, experiment.workload,
                        std::vector<Calibration>(experiment.scenario.cluster.types.size(), calibration));
  const TaskGraph graph = lower(experiment.scenario, prepared_->plan, model);
  const TaskTimes times = estimate_times(graph);
  Ticks longest(0);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(graph.ranks); ++rank) {
    Ticks begin(prepared_->rolling ? std::numeric_limits<double>::infinity() : 0), end(0);
    for (auto t = static_cast<std::size_t>(graph.rank_begin[rank]); t < static_cast<std::size_t>(graph.rank_begin[rank + 1]);
         ++t) {
      if (prepared_->rolling && graph.tasks[t].lane != Lane::Compute) continue;
      begin = std::min(begin, times.task_start[t]);
      end = std::max(end, times.task_end[t]);
    }
    longest = std::max(longest, end - begin);
  }
  return to_duration(longest).base();
}

FitRows prepare_rows(const std::vector<RunRow>& rows, const std::vector<std::string>& devices) {
  std::vector<const RunRow*> wanted;
  for (const RunRow& row : rows) {
    const std::string file = device_file_of(row.gpu);
    const bool meant = std::any_of(devices.begin(), devices.end(),
                                   [&](const std::string& device) { return !file.empty() && device_file_of(device) == file; });
    if (meant && row.step_s) wanted.push_back(&row);
  }
  std::vector<std::unique_ptr<FitRow>> made(wanted.size());
  std::vector<std::string> problems(wanted.size());
  parallel_for(wanted.size(), 0, [&](std::size_t i) {
    try {
      made[i] = std::make_unique<FitRow>(*wanted[i]);
    } catch (const InputError& error) {
      problems[i] = wanted[i]->id + ": " + error.diagnostics().front().message;
    } catch (const NoAnswer& error) {
      problems[i] = wanted[i]->id + ": " + error.what();
    }
  });
  FitRows result;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i]) result.rows.push_back(std::move(*made[i]));
    if (!problems[i].empty()) result.left_out.push_back(problems[i]);
  }
  return result;
}

}  // namespace panpipe
