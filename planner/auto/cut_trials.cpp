#include "planner/auto/cut_trials.hpp"

#include <algorithm>

namespace panpipe::planner {
namespace {

Configuration with_microbatches(Configuration c, int most) {
  if (chosen(c)) c.microbatches = std::min(c.microbatches, most);
  return c;
}

}  // namespace

CutTrials::CutTrials(Evaluator& evaluator, const Configuration& configuration)
    : evaluator_(evaluator), count_(configuration.microbatches) {
  const bool alike = !evaluator.scenario().lengths.any();  // each has its own length: none is left out
  few_ = evaluator.evaluate(alike ? with_microbatches(configuration, 4 * configuration.pipeline) : configuration);
  if (few_.plan && few_.configuration.microbatches < count_)
    fewer_ = evaluator.evaluate(with_microbatches(configuration, 2 * configuration.pipeline));
}

Exact CutTrials::operator()(const Plan& stages) const {
  Exact exact = evaluate(few_, stages);
  if (!fewer_.plan || exact.step_time <= 0) return exact;
  const int few = few_.configuration.microbatches, fewer = fewer_.configuration.microbatches;
  exact.step_time += (exact.step_time - evaluate(fewer_, stages).step_time) * (count_ - few) / (few - fewer);
  return exact;
}

Exact CutTrials::evaluate(const Exact& with, const Plan& stages) const {
  Plan plan = *with.plan;
  plan.stages = stages.stages;
  return evaluator_.evaluate(with.configuration, plan);
}

Exact with_stages(Evaluator& evaluator, const Configuration& configuration, const std::vector<StagePlan>& stages) {
  Exact whole = evaluator.evaluate(configuration);
  if (!whole.plan) return whole;
  Plan plan = *whole.plan;
  plan.stages = stages;
  return evaluator.evaluate(configuration, plan);
}

const std::vector<UnitCost>& units_of(Evaluator& evaluator, const Configuration& configuration) {
  const CostModel& model = evaluator.model(configuration);
  return model.units(model.scenario().cluster.devices.front().type).units;
}

}  // namespace panpipe::planner
