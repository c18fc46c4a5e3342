#include "planner/auto/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "planner/auto/unit_sums.hpp"
#include "planner/family_form.hpp"
#include "planner/schedule_choice.hpp"

namespace panpipe::planner {
namespace {

constexpr int kMostChunksSearched = 8;

std::vector<int> divisors(std::int64_t number, std::int64_t at_most) {
  std::vector<int> found;
  for (std::int64_t d = 1; d <= std::min(number, at_most); ++d)
    if (number % d == 0) found.push_back(static_cast<int>(d));
  return found;
}

std::vector<int> up_to(int last) {
  std::vector<int> all;
  for (int i = 1; i <= last; ++i) all.push_back(i);
  return all;
}

// A family that closed forms know, with no option but its stages per rank; else it is opaque.
int stated_family(const ScheduleRequest& request) {
  const int known = request.csv.empty() ? form_named(request.name) : -1;
  const bool plain = std::all_of(request.options.begin(), request.options.end(),
                                 [](const auto& option) { return option.first == "stages_per_rank"; });
  return known >= 0 && plain && !forms()[static_cast<std::size_t>(known)].last() ? known : form_named("");
}

void choose_schedule(const Scenario& scenario, const SearchLimits& limits, Space& space) {
  const bool open = is_open(scenario, "schedule");
  for (std::size_t f = 0; open && f < forms().size(); ++f)
    if (forms()[f].placement != StagePlacement::Opaque && may_choose(scenario, limits, forms()[f].name))
      space.families.push_back(static_cast<int>(f));
  if (!open) space.families = {stated_family(scenario.schedule)};
  if (space.families.empty())
    throw fault_at(scenario, "schedule", "none of these schedules can be searched by degrees: their orders are made for costs",
                   "add one to the list whose order costs do not decide, such as 1f1b");
  const bool one = std::all_of(space.families.begin(), space.families.end(), [](int f) {
    const FamilyForm& form = forms()[static_cast<std::size_t>(f)];
    return form.placement == StagePlacement::Line;
  });
  const bool taken_as_it_is = forms()[static_cast<std::size_t>(space.families.front())].placement == StagePlacement::Opaque;
  const bool chunks_open =
      !taken_as_it_is && is_open(scenario, "parallel.virtual_stages") && is_open(scenario, "schedule.stages_per_rank");
  if (!chunks_open)
    space.chunks = {scenario.parallel.virtual_stages};
  else if (one)
    space.chunks = {1};
  else
    space.chunks = up_to(kMostChunksSearched);
}

void choose_memory(const Scenario& scenario, const SearchLimits& limits, Space& space) {
  if (is_open(scenario, "recompute"))
    space.recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
  else
    space.recompute = {scenario.recompute};
  if (!is_open(scenario, "parallel.zero"))
    space.zero = {scenario.parallel.zero};
  else if (scenario.optimizer.name == "none")
    space.zero = {0, 2, 3};
  else
    space.zero = scenario.framework.distributed_optimizer ? std::vector<int>{1, 2, 3} : std::vector<int>{0, 1, 2, 3};
  if (is_open(scenario, "parallel.zero")) {  // without what the reader refuses
    if (scenario.parallel.shard > 0) std::erase(space.zero, 0);
    if (scenario.recompute_scope.chunk > 1) std::erase(space.zero, 3);
  }
  if (!limits.whose.empty()) {
    const auto has = [](const auto& values, auto value) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    std::erase_if(space.recompute, [&](Recompute mode) { return !has(limits.recompute, mode); });
    if (space.zero.size() > 1) std::erase_if(space.zero, [&](int zero) { return !has(limits.zero, zero); });
    if (space.zero.empty()) space.zero = {limits.zero.front()};
  }
  space.one_zero = {space.zero.front()};
}

void choose_shapes(const Experiment& experiment, const SearchLimits& limits, Space& space) {
  const Scenario& scenario = experiment.scenario;
  // Times that were measured hold for the sizes they were measured at.
  const bool sizes_given = !experiment.workload.graph || !scenario.workload.pt2_file.empty() || scenario.profile;
  if (sizes_given) space.notes.emplace_back("tensor degree and microbatch stay: the workload's costs are for these sizes");
  if (sizes_given || !is_open(scenario, "parallel.tensor"))
    space.tensor = {scenario.parallel.tensor};
  else
    space.tensor = divisors(space.node_size, space.node_size);  // so that no group leaves its node
  if (!limits.tensor) space.tensor = {1};
  if (sizes_given || !is_open(scenario, "batch.micro"))
    space.micro = {scenario.micro};
  else
    space.micro = divisors(space.global_batch, space.global_batch);
  if (sizes_given || !is_open(scenario, "parallel.sequence_parallel"))
    space.sequence_parallel = {scenario.parallel.sequence_parallel};
  else
    space.sequence_parallel = {false, true};
}

}  // namespace

Space space_of(const Experiment& experiment, const SearchLimits& limits) {
  const Scenario& scenario = experiment.scenario;
  const Parallel& parallel = scenario.parallel;
  const std::vector<UnitCost>& units = experiment.model.workload(scenario.cluster.devices.front().type).units;  // or throws
  Space space;
  space.devices = scenario.cluster.size();
  space.node_size = std::max(1, space.devices / std::max(1, scenario.cluster.nodes));
  space.context = parallel.context;
  space.experts_apart = parallel.expert > 1 || parallel.expert_tensor > 0;
  space.global_batch = std::int64_t{scenario.micro} * scenario.microbatches * parallel.data;
  check_limits(scenario, limits);
  choose_shapes(experiment, limits, space);
  choose_schedule(scenario, limits, space);
  choose_memory(scenario, limits, space);
  const bool placed = scenario.placement.has_value();  // for these degrees
  if (placed) space.tensor = {parallel.tensor};
  space.pipeline_open = !placed && is_open(scenario, "parallel.pipeline");
  space.data_open = !placed && is_open(scenario, "parallel.data");
  const int most = most_stages_of(units);
  space.pipeline = space.pipeline_open ? up_to(std::min(space.devices, most)) : std::vector<int>{parallel.pipeline};
  space.data = space.data_open ? divisors(space.global_batch, space.devices) : std::vector<int>{parallel.data};
  if (parallel.shard > 0) {
    std::erase_if(space.data, [&](int data) { return data * parallel.context % parallel.shard != 0; });
    if (space.data.empty())
      throw fault_at(scenario, "parallel.shard",
                     fmt::format("no data degree that {} devices and a global batch of {} allow is a multiple of shard {}",
                                 space.devices, space.global_batch, parallel.shard),
                     "state a smaller shard, or leave it out");
  }
  const bool spread = std::any_of(space.tensor.begin(), space.tensor.end(), [&](int tensor) {
    return std::any_of(space.data.begin(), space.data.end(), [&](int data) { return holds_experts(parallel, tensor, data); });
  });
  if (!spread)
    throw fault_at(scenario, "parallel.expert",
                   fmt::format("no degrees that {} devices and a global batch of {} allow have ranks for experts over {}",
                               space.devices, space.global_batch, parallel.expert),
                   "state a smaller parallel.expert");
  // Context ranks stay neighbours.
  space.orders = placed || space.context > 1 || !limits.pipeline_next ? std::vector{AxisOrder::DataNext}
                                                                      : std::vector{AxisOrder::DataNext, AxisOrder::PipelineNext};
  if (!scenario.partition.empty()) space.stages = static_cast<int>(scenario.partition.size()) + 1;
  space.notes.push_back(
      fmt::format("global batch {} samples; tensor {}; pipeline 1 to {}; data {}; microbatch {}; stages a rank {}; ZeRO {}",
                  space.global_batch, fmt::join(space.tensor, ", "), space.pipeline.back(), fmt::join(space.data, ", "),
                  fmt::join(space.micro, ", "), fmt::join(space.chunks, ", "), fmt::join(space.zero, ", ")));
  if (space.context > 1) space.notes.push_back(fmt::format("context {} stays as stated", space.context));
  if (space.families.size() > 1) {
    std::vector<std::string_view> names;
    for (const int f : space.families) names.push_back(forms()[static_cast<std::size_t>(f)].name);
    space.notes.push_back(fmt::format("schedules: {}", fmt::join(names, ", ")));
  }
  return space;
}

bool holds_experts(const Parallel& stated, int tensor, int data) {
  const int width = stated.expert_tensor > 0 ? stated.expert_tensor : tensor;
  return (width == 1 || width == tensor) && tensor * stated.context * data / width % stated.expert == 0;
}

std::int64_t microbatches_of(const Space& space, int micro, int data) {
  const std::int64_t step = std::int64_t{micro} * data;
  return space.global_batch % step == 0 ? space.global_batch / step : 0;
}

const std::vector<int>& zeros_of(const Space& space, int data) {
  return data * space.context > 1 || space.experts_apart ? space.zero : space.one_zero;
}

}  // namespace panpipe::planner
