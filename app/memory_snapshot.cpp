#include "app/memory_snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "costmodel/plan/model_costs.hpp"

namespace panpipe::app {

int fullest_rank(const Metrics& metrics) {
  const auto over = [](const DeviceMetrics& device) { return device.peak_memory_bytes - device.memory_limit_bytes; };
  const auto fullest = std::max_element(metrics.per_device.begin(), metrics.per_device.end(),
                                        [&](const DeviceMetrics& a, const DeviceMetrics& b) { return over(a) < over(b); });
  return fullest == metrics.per_device.end() ? 0 : fullest->rank;
}

AllocationHistory allocation_history(const PredictedStep& step, std::optional<int> rank) {
  const PlannedScenario& planned = step.planned();
  const int ranks = planned.plan.pipeline;
  if (rank && *rank >= ranks)
    throw option_fault("snapshot-rank", fmt::format("there is no pipeline rank {}; the plan has {}", *rank, ranks),
                       "ranks count from 0", code::kOutOfRange);
  const Scenario& scenario = planned.experiment.scenario;
  if (!planned.experiment.workload.graph || scenario.cluster.given)
    throw option_fault("memory-snapshot", "the tensors of measured layers and of clusters written in place are not known",
                       "name a model and a device", code::kConflict);
  if (scenario.framework.allocator == AllocatorModel::Factor || scenario.memory_model != MemoryModelKind::Full)
    throw option_fault("memory-snapshot", "the framework's allocator is a factor and is not replayed",
                       "--set framework.allocator=caching replays PyTorch's", code::kConflict);
  AllocationHistory history = record_allocations(scenario, planned.plan, ModelCosts(planned.experiment.model, planned.plan),
                                                 *planned.experiment.workload.graph, rank.value_or(fullest_rank(step.metrics())));
  PANPIPE_CHECK(history.allocated_peak > 0, "a replay without an allocation");
  for (const DeviceMetrics& device : step.metrics().per_device)
    if (device.rank == history.rank) history.scale = device.allocated_memory_bytes / static_cast<double>(history.allocated_peak);
  return history;
}

}  // namespace panpipe::app
