#include "planner/auto/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/degrees/check_degrees.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "planner/auto/unit_sums.hpp"
#include "planner/family_form.hpp"
#include "planner/schedule_choice.hpp"
#include "schedule/find_family.hpp"
#include "schedule/rolling.hpp"

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
  return known >= 0 && plain && !forms()[known].last() ? known : form_named("");
}

// A family whose gradients are stale trains something else than the others of a list.
void refuse_stale_choice(const Scenario& scenario) {
  const Node* list = written(scenario, "schedule");
  if (list == nullptr || list->kind != NodeKind::Sequence) return;
  for (const NodePtr& item : list->items)
    if (is_stale_family(item->text))
      throw fault_at(scenario, "schedule",
                     fmt::format("{} changes what is trained, because its gradients are stale: no search chooses it among others",
                                 item->text),
                     fmt::format("state it alone, as in 'schedule: {}', or take it out of the list", item->text));
}

void choose_schedule(const Scenario& scenario, Space& space) {
  refuse_stale_choice(scenario);
  const bool open = is_open(scenario, "schedule");
  for (std::size_t f = 0; open && f < forms().size(); ++f)
    if (forms()[f].placement != StagePlacement::Opaque && may_choose(scenario, forms()[f].name))
      space.families.push_back(static_cast<int>(f));
  if (!open) space.families = {stated_family(scenario.schedule)};
  if (space.families.empty())
    throw fault_at(scenario, "schedule", "none of these schedules can be searched by degrees: their orders are made for costs",
                   "add one to the list whose order costs do not decide, such as 1f1b");
  const bool one = std::all_of(space.families.begin(), space.families.end(), [](int f) {
    const FamilyForm& form = forms()[f];
    return form.placement == StagePlacement::Line;
  });
  const bool taken_as_it_is = forms()[space.families.front()].placement == StagePlacement::Opaque;
  const bool chunks_open =
      !taken_as_it_is && is_open(scenario, "parallel.virtual_stages") && is_open(scenario, "schedule.stages_per_rank");
  if (!chunks_open)
    space.chunks = {scenario.degrees.virtual_stages};
  else if (one)
    space.chunks = {1};
  else
    space.chunks = up_to(kMostChunksSearched);
}

template <class Value>
bool holds(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Of the open stages those that the trainer has; a stated one was checked.
void keep_zero(std::vector<int>& zero, const std::vector<int>& known) {
  if (zero.size() == 1) return;
  std::erase_if(zero, [&](int stage) { return !holds(known, stage); });
  if (zero.empty()) zero = {known.front()};
}

// The stages with which the trainer keeps this in the host's memory.
std::vector<int> zero_with(const Trainer& trainer, const HostedState& hosted) {
  std::vector<int> zero;
  for (const TrainerOffload& choice : trainer.offloads)
    if (choice.allows(hosted)) zero.insert(zero.end(), choice.zero.begin(), choice.zero.end());
  return zero.empty() ? trainer.zero : zero;  // check_trainer refuses it
}

void choose_memory(const Scenario& scenario, Space& space) {
  if (is_open(scenario, "recompute"))
    space.recompute = scenario.recompute_scope.attention_only()
                          ? std::vector{Recompute::None, Recompute::Selective, Recompute::Full}
                          : std::vector{Recompute::None, Recompute::Selective};  // of a set that is searched
  else
    space.recompute = {scenario.recompute_scope.firsts.empty() ? scenario.recompute : Recompute::None};  // priced with the least
  if (!is_open(scenario, "parallel.zero"))
    space.zero = {scenario.degrees.zero};
  else if (scenario.optimizer.name == "none")
    space.zero = {0, 2, 3};
  else
    space.zero = scenario.framework.distributed_optimizer ? std::vector<int>{1, 2, 3} : std::vector<int>{0, 1, 2, 3};
  if (is_open(scenario, "parallel.zero")) {  // without what the reader refuses
    if (scenario.degrees.shard > 0) std::erase(space.zero, 0);
    if (scenario.recompute_scope.chunk > 1) std::erase(space.zero, 3);
    if (const auto& sharding = scenario.optimizer.sharding)
      std::erase_if(space.zero, [&](int zero) { return !refused_sharding(*sharding, zero).empty(); });
  }
  const Trainer& trainer = trainer_of(scenario);
  if (scenario.recompute_scope.attention_only())
    std::erase_if(space.recompute, [&](Recompute mode) { return !holds(trainer.recompute, mode); });
  keep_zero(space.zero, trainer.zero);
  if (scenario.offload.optimizer || scenario.offload.parameters) keep_zero(space.zero, zero_with(trainer, scenario.offload));
  space.zero_with_pipeline = space.zero;
  std::erase_if(space.zero_with_pipeline, [&](int zero) { return zero > 0 && !holds(trainer.zero_with_pipeline, zero); });
  space.one_zero = {space.zero.front()};
  if (!scenario.offload.parameters) return;  // they come from the host as they are gathered
  std::erase_if(space.zero, [](int zero) { return zero < 3; });
  std::erase_if(space.zero_with_pipeline, [](int zero) { return zero < 3; });
  space.one_zero.clear();
}

// Times that were measured hold for the sizes they were measured at.
bool sizes_given(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario;
  return !experiment.workload.graph || !scenario.workload.pt2_file.empty() || scenario.profile;
}

void choose_shapes(const Experiment& experiment, Space& space) {
  const Scenario& scenario = experiment.scenario;
  const bool given = sizes_given(experiment);
  if (given) space.notes.emplace_back("tensor degree and microbatch stay: the workload's costs are for these sizes");
  const auto choose = [&](auto& values, const char* key, auto stated, auto open) {
    values = given || !is_open(scenario, key) ? std::remove_reference_t<decltype(values)>{stated} : std::move(open);
  };
  const Degrees& stated = scenario.degrees;
  choose(space.tensor, "parallel.tensor", stated.tensor, divisors(space.node_size, space.node_size));  // no group leaves its node
  if (!trainer_of(scenario).tensor) space.tensor = {1};
  choose(space.micro, "batch.micro", stated.micro, divisors(space.global_batch, space.global_batch));
  if (scenario.lengths.any()) space.micro = {stated.micro};
  choose(space.sequence_parallel, "parallel.sequence_parallel", stated.sequence_parallel, std::vector{false, true});
}

// From here on a sequence is long enough that its activations, more than its model, ask for more ranks: published runs share
// out sequences of 32,768 tokens and more (Llama 3, arXiv 2407.21783: 131,072; Megatron-Bridge's recipes: 32,768 on), and none
// of 8,192 tokens.
constexpr int kLongSequence = 32768;

void choose_context(const Experiment& experiment, bool fixed, Space& space) {
  const Scenario& scenario = experiment.scenario;
  const int stated = scenario.degrees.context, tokens = tokens_per_sample(experiment.workload);
  space.context = {stated};
  if (fixed || scenario.lengths.any() || !is_open(scenario, "parallel.context") || !trainer_of(scenario).context) return;
  const bool asked = written(scenario, "parallel", "context") != nullptr;
  const bool slices =
      scenario.schedule.options.count("sequence_splits") > 0 || has_option(scenario.schedule.name, "sequence_splits");
  if (!asked && (tokens < kLongSequence || slices)) return;
  space.context = divisors(tokens, space.devices);
}

void choose_experts(const Experiment& experiment, bool fixed, Space& space) {
  const Scenario& scenario = experiment.scenario;
  const Degrees& stated = scenario.degrees;
  const int experts = experiment.workload.graph ? experiment.workload.graph->routing.experts : 0;
  space.expert = {stated.expert};
  space.expert_tensor = {stated.expert_tensor};
  space.shards_where_divided = trainer_of(scenario).mixed_needs_shards && is_mixed(scenario.precision);
  space.sequence_with_tensor = experts > 0 && trainer_of(scenario).experts_need_sequence;
  if (fixed || experts == 0 || stated.shard > 0 || !trainer_of(scenario).expert) return;
  if (is_open(scenario, "parallel.expert")) space.expert = divisors(experts, space.devices);
  if (is_open(scenario, "parallel.expert_tensor")) space.expert_tensor = {0, 1};
}

// Replicas share the microbatches that are listed, or each has all of the list.
void check_lengths(const Scenario& scenario, Space& space) {
  if (!scenario.lengths.any()) return;
  const auto given = static_cast<std::int64_t>(scenario.lengths.of.size());
  std::erase_if(space.data, [&](int data) {
    const std::int64_t each = microbatches_of(space, space.micro.front(), data);
    return each != given && each * data != given;
  });
  space.notes.push_back(fmt::format("microbatch and context stay: batch.lengths lists {} microbatches", given));
}

// Drops data degrees that stated groups do not divide; throws where none is left.
void check_groups(const Scenario& scenario, Space& space) {
  const Degrees& stated = scenario.degrees;
  const auto any = [](const std::vector<int>& values, auto fits) { return std::any_of(values.begin(), values.end(), fits); };
  const auto holds = [](Degrees degrees, int data) {
    degrees.data = data;
    return degrees_hold(degrees);
  };
  if (stated.shard > 0) {
    std::erase_if(space.data, [&](int data) {
      return !any(space.context, [&](int context) { return holds({.context = context, .shard = stated.shard}, data); });
    });
    if (space.data.empty())
      throw fault_at(scenario, "parallel.shard",
                     fmt::format("no data degree that {} devices and a global batch of {} allow is a multiple of shard {}",
                                 space.devices, space.global_batch, stated.shard),
                     "state a smaller shard, or leave it out");
  }
  for (const std::vector<Degrees>& round : rounds_of(space, 1))
    for (const Degrees& shape : round)
      if (any(space.data, [&](int data) { return holds(shape, data); })) return;
  throw fault_at(scenario, "parallel.expert",
                 fmt::format("no degrees that {} devices and a global batch of {} allow have ranks for experts over {}",
                             space.devices, space.global_batch, stated.expert),
                 "state a smaller parallel.expert");
}

std::string degrees_note(const Space& space) {
  std::string text = fmt::format("global batch {} samples; tensor {}; pipeline 1 to {}; data {}; ", space.global_batch,
                                 fmt::join(space.tensor, ", "), space.pipeline.back(), fmt::join(space.data, ", "));
  if (space.context.size() > 1) text += fmt::format("context {}; ", fmt::join(space.context, ", "));
  if (space.expert.size() > 1) text += fmt::format("experts over {}; ", fmt::join(space.expert, ", "));
  return text + fmt::format("microbatch {}; stages a rank {}; ZeRO {}", fmt::join(space.micro, ", "),
                            fmt::join(space.chunks, ", "), fmt::join(space.zero, ", "));
}

}  // namespace

Space space_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario;
  const Degrees& stated = scenario.degrees;
  const std::vector<UnitCost>& units = experiment.model.workload(scenario.cluster.devices.front().type).units;  // or throws
  const Trainer& trainer = trainer_of(scenario);
  Space space;
  space.devices = scenario.cluster.size();
  space.node_size = std::max(1, space.devices / std::max(1, scenario.cluster.nodes));
  space.global_batch = std::int64_t{scenario.degrees.micro} * scenario.degrees.microbatches * stated.data;
  check_trainer(scenario);
  choose_shapes(experiment, space);
  choose_schedule(scenario, space);
  choose_memory(scenario, space);
  const bool placed = scenario.placement.has_value();  // for these degrees
  choose_context(experiment, placed || sizes_given(experiment), space);
  choose_experts(experiment, placed || sizes_given(experiment), space);
  if (placed) space.tensor = {stated.tensor};
  space.pipeline_open = !placed && is_open(scenario, "parallel.pipeline");
  space.data_open = !placed && is_open(scenario, "parallel.data");
  const bool no_pipeline = trainer.schedules && trainer.schedules->empty();
  const int most = no_pipeline || space.zero_with_pipeline.empty() ? 1 : most_stages_of(units);
  space.pipeline = space.pipeline_open ? up_to(std::min(space.devices, most)) : std::vector<int>{stated.pipeline};
  space.data = space.data_open ? divisors(space.global_batch, space.devices) : std::vector<int>{stated.data};
  check_lengths(scenario, space);
  check_groups(scenario, space);
  space.orders = placed || !trainer.replica_ranks_adjacent ? std::vector{AxisOrder::DataNext}
                                                           : std::vector{AxisOrder::DataNext, AxisOrder::PipelineNext};
  if (!scenario.partition.empty()) space.stages = static_cast<int>(scenario.partition.size()) + 1;
  space.notes.push_back(degrees_note(space));
  if (space.context.size() == 1 && space.context.front() > 1)
    space.notes.push_back(fmt::format("context {} stays as stated", space.context.front()));
  if (space.families.size() > 1) {
    std::vector<std::string_view> names;
    for (const int f : space.families) names.push_back(forms()[f].name);
    space.notes.push_back(fmt::format("schedules: {}", fmt::join(names, ", ")));
  }
  return space;
}

std::vector<std::vector<Degrees>> rounds_of(const Space& space, int micro) {
  std::vector<Degrees> all;
  for (const int context : space.context)
    for (const int expert : space.expert)
      for (const int tensor : space.tensor)
        for (const int expert_tensor : space.expert_tensor)
          for (const bool sequence : space.sequence_parallel) {
            const bool closed = space.expert_tensor.size() == 1;
            if (!sequence && tensor > 1 && space.sequence_with_tensor) continue;
            if (sequence && tensor == 1 && space.sequence_parallel.size() > 1) continue;
            if (expert_tensor == 1 && tensor == 1 && !closed) continue;  // as tensor
            all.push_back({.tensor = tensor,
                           .micro = micro,
                           .context = context,
                           .expert = expert,
                           .expert_tensor = expert_tensor,
                           .sequence_parallel = sequence});
          }
  if (space.context.size() == 1 && space.expert.size() == 1 && space.expert_tensor.size() == 1) return {all};
  const auto from_node = [&](const Degrees& shape) {
    const int group = shape.expert * shape.expert_tensor_group();
    return std::abs(std::log2(group) - std::log2(space.node_size));
  };
  std::stable_sort(all.begin(), all.end(), [&](const Degrees& a, const Degrees& b) {
    return a.context != b.context ? a.context < b.context : from_node(a) < from_node(b);
  });
  std::vector<std::vector<Degrees>> rounds;
  for (std::size_t first = 0; first < all.size(); first += kShapesOfRound)
    rounds.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(first),
                        all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), first + kShapesOfRound)));
  return rounds;
}

std::int64_t microbatches_of(const Space& space, int micro, int data) {
  const std::int64_t step = std::int64_t{micro} * data;
  return space.global_batch % step == 0 ? space.global_batch / step : 0;
}

const std::vector<int>& zeros_of(const Space& space, const Degrees& degrees) {
  if (!degrees.exchanges() || (space.one_zero.empty() && degrees.replicas() == 1)) return space.one_zero;
  return degrees.pipeline > 1 ? space.zero_with_pipeline : space.zero;
}

}  // namespace panpipe::planner
