#include "costmodel/plan/plan_features.hpp"

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "costmodel/scenario/dynamic_context.hpp"

namespace panpipe {

Features features_of(const Scenario& scenario, const Plan& plan) {
  Features features = features_of(plan.schedule);
  features.add(Feature::ListedLengths, scenario.lengths.any());
  features.add(Feature::UnequalLengths, scenario.lengths.shapes.size() > 1);
  features.add(Feature::DynamicContext, has_dynamic_context(scenario));
  features.add(Feature::JoinedOutputs, scenario.framework.joins_pipeline_outputs && plan.pipeline > 1);
  features.add(Feature::Tensor, plan.tensor > 1);
  features.add(Feature::Context, plan.context > 1);
  features.add(Feature::DividedGradients, zero_in_effect(scenario.framework, plan) >= 2);
  features.add(Feature::ExpertsApart, plan.experts_apart());
  features.add(Feature::WeightTurns, streams_weights(scenario, plan));
  return features;
}

}  // namespace panpipe
