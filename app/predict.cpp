#include "app/predict.hpp"

#include <filesystem>

#include "app/evidence/read_evidence.hpp"
#include "base/files/files_read.hpp"
#include "base/index_ranges.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/plan_cautions.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "present/picture/timeline_picture.hpp"
#include "present/result/describe_plan.hpp"
#include "present/result/result_files.hpp"
#include "study/report/report.hpp"

namespace panpipe::app {
namespace {

double seconds_since(PredictedStep::Clock::time_point begin) {
  return std::chrono::duration<double>(PredictedStep::Clock::now() - begin).count();
}

}  // namespace

std::shared_ptr<const PlannedScenario> plan_scenario(const std::string& name, const std::function<Scenario()>& load,
                                                     const std::string& plan_file) {
  const FilesRead files;
  auto planned = std::make_shared<PlannedScenario>(with_evidence(load()), plan_file);
  planned->name = name;
  shipped_evidence();  // the interval of every prediction is made from it
  planned->hashes = present::hashes_of(files);
  return planned;
}

Prediction simulate(const PlannedScenario& planned, const sim::Options& options, sim::Statistics* statistics) {
  return predict(planned.graph, planned.experiment.scenario, planned.plan, [&](const TaskGraph& graph, const Cluster& cluster) {
    return sim::simulate(graph, cluster, options, statistics);
  });
}

PredictedStep::PredictedStep(std::shared_ptr<const PlannedScenario> planned, EstimatedStep step, Clock::time_point begin)
    : planned_(std::move(planned)),
      kind_(TimelineKind::Estimated),
      metrics_(std::move(step.metrics)),
      times_(std::move(step.times)),
      wall_s_(seconds_since(begin)) {}

PredictedStep::PredictedStep(std::shared_ptr<const PlannedScenario> planned, Prediction prediction, Clock::time_point begin)
    : planned_(std::move(planned)),
      kind_(prediction.timeline.kind),
      metrics_(std::move(prediction.metrics)),
      wall_s_(seconds_since(begin)),
      timeline_(std::move(prediction.timeline)) {}

const Timeline& PredictedStep::timeline() const {
  std::call_once(once_, [&] {
    if (!timeline_) timeline_ = make_timeline(planned_->graph, times_, kind_);
  });
  return *timeline_;
}

const std::vector<MemoryHint>& PredictedStep::memory_hints() const {
  std::call_once(once_for_hints_, [&] {
    const std::string_view how = fits_how(metrics_, kind_);
    if (how == "not" || how == "hardly") memory_hints_ = panpipe::memory_hints(planned_->experiment.scenario, planned_->plan);
  });
  return memory_hints_;
}

present::ResultPlan PredictedStep::described() const {
  return present::describe_plan(planned_->experiment, planned_->plan, timeline());
}

present::ResultContext PredictedStep::context(NamesAndValues libraries) const {
  present::ResultContext context =
      present::result_context(planned_->experiment, planned_->name, planned_->hashes, std::move(libraries), wall_s_);
  context.cautions = plan_cautions(planned_->experiment.scenario, planned_->plan);
  context.blame = blame_of(planned_->experiment.scenario, planned_->plan);
  context.memory_hints = memory_hints();
  context.unused_devices = unused_indices(planned_->plan.devices, planned_->experiment.scenario.cluster.size());
  return context;
}

std::string PredictedStep::document(NamesAndValues libraries, bool with_timeline) const {
  return present::to_result_json(timeline(), metrics_, context(std::move(libraries)), described(), with_timeline);
}

std::string PredictedStep::text(const TextStyle& style) const {
  return present::result_text(planned_->experiment, timeline(), metrics_, described(), style);
}

std::string PredictedStep::svg() const {
  return present::to_svg(present::picture_of(timeline(), std::filesystem::path(planned_->name).stem().string()));
}

std::string PredictedStep::page(NamesAndValues libraries) const {
  return study::to_report_page(
      {{present::parse_result(document(std::move(libraries), true), planned_->name), scenario_yaml(), plan_yaml()}});
}

std::string PredictedStep::trace() const { return present::to_trace_json(timeline()); }

std::string PredictedStep::plan_yaml() const {
  return to_yaml(planned_->plan, planned_->experiment.model.units(planned_->experiment.scenario.cluster.devices.front().type));
}

std::string PredictedStep::scenario_yaml() const { return resolved_text(planned_->experiment.scenario); }

}  // namespace panpipe::app
