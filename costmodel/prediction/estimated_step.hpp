// Predicts a step by the fast replay, for callers that need figures repeatedly. It skips the spans of the timeline, which take
// most of a prediction's time.
#pragma once

#include "costmodel/prediction/prediction.hpp"

namespace panpipe {

struct EstimatedStep {
  TaskTimes times;  // for make_timeline(graph, times, TimelineKind::Estimated)
  StepTraits traits;
  Metrics metrics;  // as from predict(), with the interval of the step and its evidence
};

// For a plan that is already lowered.
EstimatedStep estimated_step(const TaskGraph& graph, const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
