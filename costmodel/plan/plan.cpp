// Makes the plan that the scenario requests: its schedule, its cuts, its devices.
#include "costmodel/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/degrees/check_degrees.hpp"
#include "costmodel/plan/check.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/partition.hpp"
#include "costmodel/plan/pass_means.hpp"
#include "costmodel/plan/plan_features.hpp"
#include "costmodel/plan/slots.hpp"
#include "costmodel/scenario/at_key.hpp"
#include "costmodel/scenario/check_together.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "schedule/find_family.hpp"
#include "schedule/memory/memory_actions.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {

namespace {

// Costs of a pass when the model is cut into `stages`: means, or with `each` the costs of every stage if the cuts can be made.
using MeanCosts = std::function<PassCosts(int stages, bool each)>;

Schedule requested_schedule(const PlanRequest& wanted, const MeanCosts& mean_costs) {
  const ScheduleRequest& request = wanted.schedule;
  const int ranks = wanted.degrees.pipeline, per_rank = wanted.degrees.virtual_stages;
  ScheduleOptions options = request.options;
  ScheduleOptions memory;  // applied to the finished order, under the costs of its stages
  for (const auto& option : memory_options())
    if (auto found = options.extract(std::string(option.first)); !found.empty()) memory.insert(std::move(found));
  const auto with_memory_actions = [&](Schedule schedule) {
    if (memory.empty()) return schedule;
    const PassCosts stage_costs = mean_costs(schedule.stages, false);
    return apply_memory_options(std::move(schedule), memory, stage_costs);
  };
  if (!request.csv.empty()) return with_memory_actions(stated_order(request));
  const ScheduleFamily* family = find_family(request.name);  // where there is none, make_schedule reports it
  if (per_rank > 1 && has_option(request.name, "stages_per_rank") && options.count("stages_per_rank") == 0)
    options["stages_per_rank"] = std::to_string(per_rank);
  PassCosts costs;
  if (family != nullptr && family->searched()) costs = mean_costs(make_schedule(request.name, ranks, 1, options).stages, true);
  Schedule schedule = with_memory_actions(make_schedule(request.name, ranks, wanted.degrees.microbatches, options, costs));
  const int made = schedule.stages / std::max(1, schedule.ranks);
  if (per_rank > 1 && made != per_rank)
    throw InputError(fmt::format("parallel.virtual_stages is {}, but schedule {} has {} stage{} per rank", per_rank, request.name,
                                 made, made == 1 ? "" : "s"));
  return schedule;
}

void check_requested_degrees(const Scenario& scenario, const Degrees& degrees) {
  const std::vector<DegreeProblem> problems = check_degrees(degrees, {.devices = scenario.cluster.size()});
  if (problems.empty()) return;
  const DegreeProblem& first = problems.front();
  throw fault_at(scenario, "parallel." + std::string(first.key), first.message, first.help);
}

std::vector<int> requested_devices(const Cluster& cluster, const PlanRequest& request) {
  if (!request.placement) {
    std::vector<int> devices(request.degrees.device_count());
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  if (const std::string problem = device_problem(*request.placement, request.degrees, cluster); !problem.empty())
    throw InputError("placement: " + problem);
  return *request.placement;
}

std::vector<int> cuts_of(const Scenario& scenario, const PlanRequest& request, const std::vector<PartitionUnit>& units,
                         int parts) {
  return at_key(scenario, "partition", [&] {
    if (!request.cuts.empty()) {
      check_number_of_cuts(request.cuts.size(), parts);
      return request.cuts;
    }
    if (!request.partition.empty()) return stated_cuts(units, request.partition, parts);
    if (!cuts_vocabulary(request.schedule.options)) return automatic_cuts(units, parts);
    std::vector<int> cuts = automatic_cuts({units.begin() + 1, units.end() - 1}, parts);
    for (int& cut : cuts) ++cut;
    return cuts;
  });
}

// The scenario's blocks by stage are of its own mode.
void check_first_blocks(const Scenario& scenario, const PlanRequest& request, std::size_t stages) {
  const std::vector<int>& firsts = scenario.recompute_scope.firsts;
  if (request.recompute == Recompute::None || firsts.empty() || firsts.size() == stages) return;
  throw fault_at(scenario, "recompute",
                 fmt::format("recompute.first lists {} stages, and the schedule has {}", firsts.size(), stages),
                 "state a number of blocks for each stage");
}

void set_recompute(const Scenario& scenario, const PlanRequest& request, std::size_t position, StagePlan& stage) {
  const std::vector<int>& firsts = scenario.recompute_scope.firsts;
  stage.recompute = request.recompute;
  if (request.recompute == Recompute::None || firsts.empty()) return;
  stage.recompute_first = firsts[position];
  if (stage.recompute_first == 0) stage.recompute = Recompute::None;
}

// Where a fault of the schedule stands. Its sizes come from several keys: an override among them came last, and is the place.
// The default schedule is one of any sizes: it has too many actions only where the batch does.
std::string key_of_schedule(const Scenario& scenario) {
  const std::string batch = is_open(scenario, "batch.global") ? "batch.microbatches" : "batch.global";
  const Node* schedule = scenario.document ? scenario.document->find("schedule") : nullptr;
  if (schedule != nullptr && !schedule->overridden)
    for (const Node::Entry& option : schedule->entries)
      if (option.value->overridden) return "schedule." + option.key;
  for (const std::string& key :
       {std::string("schedule"), batch, std::string("parallel.pipeline"), std::string("parallel.virtual_stages")})
    if (!is_open(scenario, key) && origin_of(scenario, key) == "--set") return key;
  return is_open(scenario, "schedule") ? batch : "schedule";
}

// The stage at position k of each path gets slot k. What runs forwards alone leaves the inputs of its blocks, from which what
// runs backwards makes the rest again.
void cut_into_slots(const Scenario& scenario, const PlanRequest& request, const std::vector<SlotUnit>& units, SlotCounts slots,
                    Plan& plan) {
  if (!request.partition.empty() || !request.cuts.empty())
    throw fault_at(
        scenario, "partition",
        fmt::format("schedule '{}' cuts forward and backward apart, which a partition cannot state", plan.schedule.name),
        "leave partition out: the slots are balanced");
  if (request.recompute == Recompute::Selective)
    throw fault_at(scenario, "recompute",
                   fmt::format("schedule '{}' makes the activations of its backward slots again as a whole", plan.schedule.name),
                   "leave recompute out");
  const std::vector<UnitRange> ranges =
      at_key(scenario, "schedule", [&] { return slot_ranges(units, slots.forward, slots.backward); });
  plan.stages.resize(plan.schedule.stages);
  for (const auto& chain : plan.schedule.chains)
    for (std::size_t k = 0; k < chain.size(); ++k) {
      const bool turns = k == static_cast<std::size_t>(slots.forward);
      plan.stages[chain[k]] = {ranges[k].first, ranges[k].end, turns ? Recompute::None : Recompute::Full, 0};
    }
}

Plan plan_with_units(const Scenario& scenario, const PlanRequest& request, const std::vector<PartitionUnit>& units,
                     const MeanCosts& mean_costs, const std::function<std::vector<SlotUnit>()>& slot_units) {
  Plan plan{request.degrees, {}, {}, {}};
  check_requested_degrees(scenario, request.degrees);
  plan.devices = at_key(scenario, request.placement ? "placement" : "parallel",
                        [&] { return requested_devices(scenario.cluster, request); });
  plan.schedule = at_key(scenario, key_of_schedule(scenario), [&] {
    Schedule schedule = requested_schedule(request, mean_costs);
    check_schedule_fits(request.degrees, schedule);
    return schedule;
  });
  check_together(scenario, features_of(scenario, plan), Where::Predicted);
  plan.lengths = plan_lengths(scenario, plan);
  if (const SlotCounts slots = slot_counts(plan.schedule); slots.any()) {
    cut_into_slots(scenario, request, slot_units(), slots, plan);
    return plan;
  }
  // Every forward path holds the whole model: the stage at position k of each path gets part k.
  const int parts = static_cast<int>(plan.schedule.chains.front().size());
  const int apart = cuts_vocabulary(request.schedule.options) ? 1 : 0;  // units at either end that no stage holds
  if ((plan.schedule.vocabulary_barriers > 0) != (apart > 0))
    throw fault_at(scenario, "schedule",
                   "an order has passes E, S, T, G where its vocabulary is cut over the stages, and only there",
                   "write schedule: {csv: ..., vocabulary: stages} for an order that has them");
  const std::size_t held = units.size() - 2 * static_cast<std::size_t>(apart);
  if (parts > static_cast<int>(held))
    throw fault_at(scenario, "workload",
                   fmt::format("{} stages cannot share {} unit{}: the workload can be cut into {} stage{} at most", parts, held,
                               held == 1 ? "" : "s", held, held == 1 ? "" : "s"),
                   fmt::format("parallel.pipeline is {} ({})", plan.pipeline, origin_of(scenario, "parallel.pipeline")));
  check_first_blocks(scenario, request, static_cast<std::size_t>(parts));
  const std::vector<int> cuts = cuts_of(scenario, request, units, parts);
  plan.stages.resize(plan.schedule.stages);
  for (const auto& chain : plan.schedule.chains) {
    for (std::size_t k = 0; k < chain.size(); ++k) {
      StagePlan& stage = plan.stages[chain[k]];
      stage.first_unit = k == 0 ? apart : cuts[k - 1];
      stage.end_unit = k < cuts.size() ? cuts[k] : static_cast<int>(units.size()) - apart;
      set_recompute(scenario, request, k, stage);
    }
  }
  return plan;
}

// The weight of a unit in partitioning: its time on device and host, or without rates its work.
Duration weight_of(const LoweringCosts& costs, std::initializer_list<const PassCost*> passes, int site, bool timed) {
  Duration time(0);
  Flops work(0);
  for (const PassCost* pass : passes) {
    time += time_alone(costs, *pass, site);
    work += pass->breakdown.work;
  }
  const ComputeRate pretended(1e15);  // only ratios matter
  return timed ? time : work / pretended;
}
Duration weight_of(const LoweringCosts& costs, const UnitCost& unit, int site, bool timed) {
  return weight_of(costs, {&unit.forward, &unit.input_gradient, &unit.weight_gradient}, site, timed);
}

}  // namespace

std::vector<int> plan_lengths(const Scenario& scenario, const Plan& plan) {
  const MicrobatchLengths& lengths = scenario.lengths;
  if (!lengths.any()) return {};
  const std::vector<int> listed = has_dynamic_context(scenario) ? slowest_lengths(scenario) : lengths.of;
  const auto given = static_cast<long long>(listed.size()), one = static_cast<long long>(plan.schedule.microbatches);
  if (given != one && given != one * plan.data)
    throw fault_at(
        scenario, "batch.lengths",
        fmt::format("{} lengths for {} microbatches of {} replica{}", given, one, plan.data, plan.data == 1 ? "" : "s"),
        "give one for each microbatch, or for each of every data replica");
  std::vector<int> of;
  for (int replica = 0; replica < plan.data && (replica == 0 || given == one); ++replica)
    of.insert(of.end(), listed.begin(), listed.end());
  return of;
}

void check_schedule_fits(const Degrees& degrees, const Schedule& schedule) {
  if (schedule.ranks != degrees.pipeline)
    throw InputError(fmt::format("schedule '{}' is for {} ranks, but parallel.pipeline is {}", schedule.name, schedule.ranks,
                                 degrees.pipeline));
  if (schedule.microbatches != degrees.microbatches)
    throw InputError(fmt::format("schedule '{}' is for {} microbatches, but batch.microbatches is {}", schedule.name,
                                 schedule.microbatches, degrees.microbatches));
  const std::vector<ScheduleProblem> problems = check_schedule(schedule);
  if (problems.empty()) return;
  const ScheduleProblem& first = problems.front();
  std::string text = fmt::format("schedule '{}' is illegal: ", schedule.name);
  if (first.rank >= 0) text += fmt::format("rank {}", first.rank);
  if (first.rank >= 0 && first.position >= 0) text += fmt::format(", position {}", first.position);
  if (first.rank >= 0 && !first.action.empty()) text += fmt::format(" ({})", first.action);
  if (first.rank >= 0) text += ": ";
  text += first.message;
  if (problems.size() > 1) text += fmt::format("\n  and {} more fault{}", problems.size() - 1, problems.size() == 2 ? "" : "s");
  throw NoAnswer(text);
}

std::string device_problem(const std::vector<int>& devices, const Degrees& degrees, const Cluster& cluster) {
  if (static_cast<int>(devices.size()) != degrees.device_count())
    return fmt::format("{} devices are named, but {} needs {}", devices.size(), product_text(degrees), degrees.device_count());
  std::set<int> seen;
  for (const int device : devices) {
    if (device < 0 || device >= cluster.size())
      return fmt::format("there is no device {}; cluster '{}' has devices 0 to {}", device, cluster.name, cluster.size() - 1);
    if (!seen.insert(device).second) return fmt::format("device {} is named twice", device);
  }
  return "";
}

PlanRequest request_of(const Scenario& scenario) {
  return {scenario.degrees, scenario.schedule, scenario.partition, {}, scenario.placement, scenario.recompute};
}

namespace {

// The shape in which the mean token of the step stands: half of the tokens are in no longer ones.
int typical_length(const Scenario& scenario) {
  const MicrobatchLengths& lengths = scenario.lengths;
  std::vector<double> tokens(lengths.shapes.size());
  for (const int length : listed_sequences(scenario)) tokens[at(length)] += lengths.shapes[at(length)].tokens();
  const double half = std::accumulate(tokens.begin(), tokens.end(), 0.0) / 2;
  int length = 0;
  for (double longer = 0; at(length + 1) < tokens.size() && (longer += tokens[at(length)]) < half;) ++length;
  return length;
}

}  // namespace

Plan make_plan(const Scenario& scenario, const PlanRequest& request, const LoweringCosts& costs) {
  // On a cluster of several types of device the first one's times balance the cuts; of several lengths the typical one's.
  const int site =
      scenario.cluster.devices.empty() ? 0 : costs.site_of(scenario.cluster, PassGroups({0}), typical_length(scenario));
  const std::vector<UnitCost>& all = costs.units(site).units;
  const bool timed = std::any_of(all.begin(), all.end(), [](const UnitCost& unit) {
    return unit.forward.breakdown.total + unit.input_gradient.breakdown.total + unit.weight_gradient.breakdown.total >
           Duration(0);
  });
  std::vector<PartitionUnit> units;
  for (const UnitCost& unit : all) units.push_back({unit.name, unit.block, weight_of(costs, unit, site, timed)});
  const auto mean_costs = [&](int stages, bool each) {
    PassCosts means = mean_pass_costs(scenario.cluster, request, costs, site, stages);
    if (each && timed && stages <= static_cast<int>(units.size()))
      add_stage_costs(request, costs, site, cuts_of(scenario, request, units, stages), means);
    return means;
  };
  return plan_with_units(scenario, request, units, mean_costs, [&] {
    std::vector<SlotUnit> slots;
    for (const UnitCost& unit : all)
      slots.push_back({unit.block, weight_of(costs, {&unit.forward}, site, timed), weight_of(costs, unit, site, timed)});
    return slots;
  });
}

Plan make_plan(const Scenario& scenario, const PlanRequest& request, const CostModel& model) {
  return make_plan(scenario, request, ModelCosts(model, request.degrees));
}

}  // namespace panpipe
