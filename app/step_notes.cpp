#include "app/step_notes.hpp"

#include <fmt/format.h>

#include "app/plan_question.hpp"
#include "base/index_ranges.hpp"
#include "costmodel/prediction/plan_cautions.hpp"
#include "costmodel/workload/assumptions.hpp"

namespace panpipe::app {

std::vector<std::string> step_notes(const PredictedStep& step) {
  const Scenario& scenario = step.planned().experiment.scenario;
  const Plan& plan = step.planned().plan;
  std::vector<std::string> notes;
  for (const std::string& caution : plan_cautions(scenario, plan)) notes.push_back("caution: " + caution);
  for (const std::string& assumption : assumptions_of(scenario.workload)) notes.push_back("assumed: " + assumption);
  for (const MemoryHint& hint : step.memory_hints()) notes.push_back("memory: with " + to_text(hint));
  const int devices = scenario.cluster.size();
  // MFU and the bubble are counted over the devices that are used: the others would not show.
  if (const std::vector<int> unused = unused_indices(plan.devices, devices); !unused.empty())
    notes.push_back("warning: " + unused_devices_text(unused, devices) + "; MFU and bubble leave them out");
  // Without a word on degrees every device is a stage of one pipeline, which is seldom meant.
  if (!step.planned().plan_given && plan.pipeline > 1 && !states_split(scenario))
    notes.push_back(
        fmt::format("note: no split is stated, so all {} devices are one pipeline; panpipe plan {} searches for a better one",
                    plan.pipeline, step.planned().name));
  return notes;
}

}  // namespace panpipe::app
