// A step by the fast replay for callers that ask for figures again and again: without the spans of its timeline, which are most
// of what a prediction costs.
#pragma once

#include "costmodel/prediction/prediction.hpp"

namespace panpipe {

struct EstimatedStep {
  TaskTimes times;  // make_timeline(graph, times, TimelineKind::Estimated) is its timeline
  Metrics metrics;  // those of predict(), with the interval of the step and its evidence
};

// Of a plan lowered before.
EstimatedStep estimated_step(const TaskGraph& graph, const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
