#include "validation/fit/fit_rows.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/lowering/pass_lanes.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "schedule/rolling.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe::validation {

// The node of a rank's first and last entry of the compute lane.
struct RankEnds {
  std::uint32_t first = 0, last = 0;
};

namespace {

std::vector<RankEnds> compute_ends(const TaskGraph& graph, const CompiledGraph& compiled) {
  std::vector<RankEnds> ends(graph.ranks);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    if (graph.tasks[t].lane != Lane::Compute) continue;
    RankEnds& rank = ends[graph.tasks[t].rank];
    if (rank.first == 0) rank.first = compiled.task_node[t];
    rank.last = compiled.task_node[t];
  }
  return ends;
}

// Where passes have no fixed duration there is no table of costs: such rows are lowered each time. Ticks.
double lowered_step(const TaskGraph& graph, bool rolling) {
  const TaskTimes times = estimate_times(graph);
  return rolling ? step_period(graph, times) : step_time(graph, times).base();
}

}  // namespace

struct FitRow::Prepared {
  Scenario scenario;
  Workload workload;
  Plan plan;
  bool rolling, fixed;
  Structure structure;
  std::vector<RankEnds> ends;  // per rank

  Prepared(const RunScenario& written, const std::string& name, const Calibration& start)
      : scenario(parse_scenario(written.text, name, data_directory())),
        workload(make_workload(scenario)),
        rolling(written.rolling) {
    const CostModel costs = model(start);
    plan = make_plan(scenario, costs);
    const TaskGraph graph = lower(scenario, plan, costs);
    fixed = durations_are_fixed(graph) && rolling_of(plan.schedule) == Rolling::None;
    if (!fixed) return;
    CompiledGraph compiled = compile(graph);
    ends = compute_ends(graph, compiled);
    structure = std::move(compiled.structure);
  }

  CostModel model(const Calibration& calibration) const {
    return CostModel(scenario, workload, std::vector<Calibration>(scenario.cluster.types.size(), calibration));
  }

  double replayed_step(const CostTables& tables) const {
    PANPIPE_CHECK(tables.costs.size() == structure.cost_entries && tables.delays.size() == structure.delay_entries,
                  "prices of another graph");
    std::vector<double> end(structure.tasks + 1);
    const double step = replay(structure, tables.costs.data(), tables.delays.data(), end.data());
    if (!rolling) return step;
    std::vector<Interval> spans;
    for (const RankEnds& rank : ends)
      spans.push_back({end[rank.first] - tables.costs[structure.cost[rank.first]], end[rank.last]});
    return step_period(spans);
  }
};

FitRow::FitRow(RunRow row, const Calibration& start) : row_(std::move(row)) {
  const RunScenario written = scenario_of(row_);
  if (!written.skipped.empty()) throw InputError(written.skipped);
  prepared_ = std::make_unique<Prepared>(written, row_.id, start);
}

FitRow::~FitRow() = default;
FitRow::FitRow(FitRow&&) noexcept = default;

const std::string& FitRow::framework() const { return prepared_->scenario.framework.name; }

double FitRow::predicted_s(const Calibration& calibration) const {
  const Prepared& p = *prepared_;
  const CostModel model = p.model(calibration);
  const double ticks = p.fixed ? p.replayed_step(tables_of(prices_of(p.scenario, p.plan, model)))
                               : lowered_step(lower(p.scenario, p.plan, model), p.rolling);
  return to_duration(Ticks(ticks)).base();
}

FitRows prepare_rows(const std::vector<RunRow>& rows, const std::vector<std::string>& devices, const Calibration& start) {
  std::vector<const RunRow*> wanted;
  for (const RunRow& row : rows) {
    const std::string file = device_file_of(row.gpu);
    const bool meant = std::any_of(devices.begin(), devices.end(),
                                   [&](const std::string& device) { return !file.empty() && device_file_of(device) == file; });
    if (meant && row.step_s) wanted.push_back(&row);
  }
  std::vector<std::unique_ptr<FitRow>> made(wanted.size());
  std::vector<std::string> problems(wanted.size());
  parallel_for(wanted.size(), 0, [&](std::size_t i, std::size_t) {
    try {
      made[i] = std::make_unique<FitRow>(*wanted[i], start);
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

}  // namespace panpipe::validation
