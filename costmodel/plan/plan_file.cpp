// plan.yaml: writes a complete plan, schedule included, and reads it back (docs/file-formats.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/scalar_text.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/plan/check.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/plan/partition.hpp"
#include "costmodel/plan/plan_features.hpp"
#include "costmodel/plan/slots.hpp"
#include "costmodel/scenario/check_together.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "schedule/find_family.hpp"

namespace panpipe {

namespace {

std::vector<int> read_integers(const Node* node, ReadLog& log) {
  std::vector<int> values;
  if (node == nullptr) return values;
  if (node->kind != NodeKind::Sequence) {
    log.error(*node, "must be a list of whole numbers");
    return values;
  }
  for (const auto& item : node->items) values.push_back(read_integer(*item, log, 0).value_or(0));
  return values;
}

Schedule read_schedule(const Node& node, ReadLog& log) {
  MapReader reader(node, log);
  const std::string name = reader.string("name");
  std::string text;
  const Node* rows = reader.require("csv");
  if (rows != nullptr && rows->kind != NodeKind::Sequence) {
    log.error(*rows, "must be a list of lines");
  } else if (rows != nullptr) {
    text = read_order_rows(*rows, log);
  }
  reader.finish();
  log.throw_if_errors();
  return read_schedule_csv(text, name);
}

StagePlan read_stage(const Node& node, ReadLog& log, const std::vector<UnitCost>& units) {
  MapReader reader(node, log);
  StagePlan stage;
  const Node* range = reader.require("units");
  const std::vector<int> ends = read_integers(range, log);
  const std::string first = reader.string("first"), last = reader.string("last");
  stage.recompute = reader.choice<Recompute>("recompute", recompute_modes(), Recompute::None);
  if (const Node* blocks = reader.find("recompute_first")) {
    stage.recompute_first = reader.integer("recompute_first", 1);
    if (stage.recompute == Recompute::None)
      log.error(*blocks, "a stage without recompute has no blocks that recompute", "state 'recompute: full', or leave it out",
                code::kConflict);
  }
  reader.finish();
  if (range == nullptr) return stage;
  const auto count = static_cast<int>(units.size());
  if (ends.size() != 2 || ends[0] >= ends[1] || ends[1] > count) {
    log.error(*range, fmt::format("must be [first, end) with first < end, at most the workload's {} units", count));
    return stage;
  }
  stage.first_unit = ends[0];
  stage.end_unit = ends[1];
  const auto& starts = units[ends[0]].name;
  const auto& stops = units[ends[1] - 1].name;
  if (first != starts || last != stops)
    log.error(*range,
              fmt::format("units {} to {} of this workload are '{}' to '{}', not '{}' to '{}': the plan was made for another",
                          ends[0], ends[1] - 1, starts, stops, first, last));
  return stage;
}

// The plan's keys were put into the scenario when it was loaded: only an override can contradict them.
void check_agrees(const Node& map, ReadLog& log, const Scenario& scenario, const std::string& key, const std::string& here,
                  const std::string& there) {
  if (here == there) return;
  const std::string name = key.substr(key.find('.') + 1);
  const Node* node = map.find(name);
  log.error(node != nullptr ? *node : map,
            fmt::format("the plan has {} {}, but the scenario has {} ({})", name, here, there, origin_of(scenario, key)),
            fmt::format("the plan decides {}: do not set it, or plan again", key));
}

void read_degrees(const Node& node, ReadLog& log, const Scenario& scenario, Plan& plan) {
  MapReader reader(node, log);
  for (const Axis& axis : kAxes) {
    const std::string key(axis.key);
    if (!axis.in_plan) continue;
    const bool stated = axis.always || reader.find(key) != nullptr;
    if (axis.flag != nullptr)
      axis.put(plan, int{reader.boolean(key, scenario.degrees.*axis.flag)});
    else
      axis.put(plan, stated ? reader.integer(key, axis.least) : axis.of(Degrees{}));
    check_agrees(node, log, scenario, "parallel." + key, axis.text(plan), axis.text(scenario.degrees));
  }
  reader.finish();
}

void read_batch(const Node& node, ReadLog& log, const Scenario& scenario) {
  MapReader batch(node, log);
  for (const auto& [key, value] :
       {std::pair("batch.micro", scenario.degrees.micro), {"batch.microbatches", scenario.degrees.microbatches}}) {
    const int here = batch.integer(std::string(key).substr(6), 1, value);
    check_agrees(node, log, scenario, key, std::to_string(here), std::to_string(value));
  }
  batch.finish();
}

// The place of state that the plan decides.
void read_offload(const Node& node, ReadLog& log, const Scenario& scenario) {
  MapReader reader(node, log);
  const auto compare = [&](const char* key, const Choices<std::string>& places, const std::string& there) {
    if (!reader.has(key)) return;
    const auto here = reader.choice<std::string>(key, places);
    check_agrees(node, log, scenario, fmt::format("offload.{}", key), here, there);
  };
  const HostedState& hosted = scenario.offload;
  const char* updated = hosted.streams ? "stream" : "cpu";
  compare("optimizer", {{"cpu", "cpu"}, {"stream", "stream"}, {"none", "none"}}, hosted.optimizer ? updated : "none");
  compare("parameters", {{"cpu", "cpu"}, {"none", "none"}}, hosted.parameters ? "cpu" : "none");
  reader.find("activations");  // the order holds the copies
  reader.finish();
}

// The operators of the plan's selective recompute.
void read_operators(const Node& node, ReadLog& log, const Scenario& scenario) {
  MapReader reader(node, log);
  const Node* list = reader.require("operators");
  reader.finish();
  if (list == nullptr) return;
  std::vector<std::string> here;
  for (const NodePtr& item : list->items) here.push_back(item->text);
  const std::string there = names_of(scenario.recompute_scope.operators);
  if (const std::string names = fmt::format("{}", fmt::join(here, ", ")); names != there)
    log.error(*list, fmt::format("the plan recomputes {}, but the scenario {}", names, there),
              "the plan decides recompute: do not set it, or plan again");
}

// The value that an override sets at a key, or the first one inside it; nullptr: none, or it leaves the key open.
const Node* override_at(const Node* node) {
  if (node == nullptr) return nullptr;
  if (node->overridden) return node->kind == NodeKind::Scalar && node->text == "auto" ? nullptr : node;
  for (const Node::Entry& entry : node->entries)
    if (const Node* inside = override_at(entry.value.get())) return inside;
  for (const NodePtr& item : node->items)
    if (const Node* inside = override_at(item.get())) return inside;
  return nullptr;
}

// Whether the request is for the plan's order. A name alone leaves the options open; the order of a searched family depends on
// more than its options.
bool asks_for(const ScheduleRequest& request, const Node& stated, const Schedule& order) {
  if (!request.csv.empty() || request.name != order.name) return false;
  const bool options = std::any_of(stated.entries.begin(), stated.entries.end(), [](const Node::Entry& entry) {
    return entry.key != "name" && override_at(entry.value.get()) != nullptr;
  });
  if (!options) return true;
  const ScheduleFamily* family = find_family(request.name);
  return family != nullptr && !family->searched() &&
         make_schedule(request.name, order.ranks, order.microbatches, request.options).order == order.order;
}

std::vector<int> cuts_in(const Plan& plan) {
  std::vector<int> cuts;
  const std::vector<int>& chain = plan.schedule.chains.front();
  for (std::size_t k = 1; k < chain.size(); ++k) cuts.push_back(plan.stages[chain[k]].first_unit);
  return cuts;
}

std::vector<int> cuts_in(const Scenario& scenario, const std::vector<UnitCost>& units, int stages) {
  std::vector<PartitionUnit> parts;
  for (const UnitCost& unit : units) parts.push_back({unit.name, unit.block});
  return stated_cuts(parts, scenario.partition, stages);
}

std::string recompute_of(const Plan& plan) {
  std::set<std::string_view> modes;
  for (const StagePlan& stage : plan.stages) modes.insert(name_of(stage.recompute));
  return fmt::format("{}", fmt::join(modes, " and "));
}

bool recomputes_as_stated(const Plan& plan, const Scenario& scenario) {
  const std::vector<int>& firsts = scenario.recompute_scope.firsts;
  const std::string mode = firsts.empty() ? recompute_of(plan) : std::string(name_of(most_recompute(plan)));
  return mode == name_of(scenario.recompute) && first_blocks(plan) == firsts;
}

// Everything that the plan decides, except degrees and batch, is in the plan alone: it replaces the scenario's own values, and
// an override must agree with it.
void check_overrides(const Node& root, ReadLog& log, const Scenario& scenario, const Plan& plan,
                     const std::vector<UnitCost>& units) {
  if (!scenario.document) return;
  const auto stated = [&](const char* key) { return override_at(scenario.document->find(key)); };
  const auto refuse = [&](const Node& there, const char* place, const std::string& has) {
    const Node* node = root.find(place);
    log.error(node != nullptr ? *node : root,
              fmt::format("the plan has {}, and an override says otherwise of {}", has, there.path),
              fmt::format("the plan decides {}: do not set it, or plan again", there.path));
  };
  const Schedule& order = plan.schedule;
  const int stages = static_cast<int>(order.chains.front().size());
  if (const Node* there = stated("schedule"); there != nullptr && !is_open(scenario, "schedule"))
    if (!asks_for(scenario.schedule, *scenario.document->find("schedule"), order))
      refuse(*there, "schedule", "schedule " + order.name);
  if (const Node* there = stated("recompute"); there != nullptr && !recomputes_as_stated(plan, scenario))
    refuse(*there, "stages", "recompute " + recompute_of(plan));
  if (const Node* there = stated("partition"))
    if (const std::vector<int> cuts = cuts_in(plan); cuts_in(scenario, units, stages) != cuts)
      refuse(*there, "stages", fmt::format("cuts at {}", fmt::join(cuts, ", ")));
  if (const Node* there = stated("placement"); there != nullptr && scenario.placement && *scenario.placement != plan.devices)
    refuse(*there, "devices", "its own devices");
  const Node* parallel = scenario.document->find("parallel");
  if (const Node* there = parallel != nullptr ? override_at(parallel->find("virtual_stages")) : nullptr)
    if (scenario.degrees.virtual_stages * order.ranks != stages)
      refuse(*there, "schedule", fmt::format("{} stages on {} ranks", stages, order.ranks));
}

// The scenario's lengths in the order of the plan, which may have searched for one within each replica.
std::vector<int> ordered_lengths(const Node* node, ReadLog& log, const Scenario& scenario, const Plan& plan) {
  std::vector<int> given = plan_lengths(scenario, plan);
  if (node == nullptr) return given;
  std::vector<int> lengths = read_integers(node, log);
  const auto alike = [&](std::size_t first) {
    const auto end = static_cast<std::ptrdiff_t>(first) + plan.microbatches;
    return std::is_permutation(lengths.begin() + static_cast<std::ptrdiff_t>(first), lengths.begin() + end,
                               given.begin() + static_cast<std::ptrdiff_t>(first), given.begin() + end);
  };
  bool same = lengths.size() == given.size();
  for (std::size_t first = 0; same && first < given.size(); first += static_cast<std::size_t>(plan.microbatches))
    same = alike(first);
  if (!same) log.error(*node, "the plan was made for other lengths of microbatches than batch.lengths has", "plan again");
  return lengths;
}

// Every forward path must hold each unit once, in order; and what comes behind its turn each unit before that.
void check_cover(const Node& node, const Plan& plan, int units) {
  const int forward = slot_counts(plan.schedule).forward;
  for (const auto& chain : plan.schedule.chains) {
    const int apart = plan.schedule.vocabulary_barriers > 0 ? 1 : 0;  // units at either end that no stage holds
    int next = apart;
    std::vector<int> path = chain;
    if (forward > 0) {
      const auto back = path.begin() + forward + 1;
      const int turn = plan.stages[chain[forward]].first_unit;
      int end = turn;
      for (auto s = back; s != path.end(); ++s) {
        if (plan.stages[*s].end_unit != end)
          throw InputError({diagnostic_at(node, fmt::format("stage {} ends at unit {}, but the stage before it starts at unit {}",
                                                            *s, plan.stages[*s].end_unit, end))});
        end = plan.stages[*s].first_unit;
      }
      if (end != 0) throw InputError({diagnostic_at(node, fmt::format("the backward ends at unit {}, not at the first", end))});
      path.erase(back, path.end());
    }
    for (const int s : path) {
      const StagePlan& stage = plan.stages[s];
      if (stage.first_unit != next)
        throw InputError({diagnostic_at(node, fmt::format("stage {} starts at unit {}, but the stage before it ends at unit {}",
                                                          s, stage.first_unit, next))});
      next = stage.end_unit;
    }
    if (next != units - apart)
      throw InputError({diagnostic_at(node, fmt::format("the stages end at unit {}, but the workload has {}", next, units))});
  }
}

}  // namespace

std::string to_yaml(const Plan& plan, const WorkloadCost& names) {
  std::string text = "panpipe: 1\nkind: plan\n";
  text += fmt::format("batch: {{microbatches: {}, micro: {}}}\n", plan.schedule.microbatches, plan.micro);
  if (!plan.lengths.empty())
    text += fmt::format("lengths: [{}]  # of each replica's microbatches: the shape in batch.lengths, from 0, the longest\n",
                        fmt::join(plan.lengths, ", "));
  text += fmt::format("parallel: {}\n", yaml_of(plan));
  text += fmt::format("devices: [{}]  # of position (pipeline, data, {}tensor), tensor fastest\n", fmt::join(plan.devices, ", "),
                      plan.context > 1 ? "context, " : "");
  text += "stages:  # units are [first, end)\n";
  for (const StagePlan& stage : plan.stages)
    text += fmt::format("- {{units: [{}, {}], first: {}, last: {}, recompute: {}{}}}\n", stage.first_unit, stage.end_unit,
                        quoted_scalar(names.units[stage.first_unit].name), quoted_scalar(names.units[stage.end_unit - 1].name),
                        name_of(stage.recompute),
                        stage.recompute_first > 0 ? fmt::format(", recompute_first: {}", stage.recompute_first) : "");
  text += fmt::format("schedule:\n  name: {}\n  csv:\n", quoted_scalar(plan.schedule.name));
  const std::string csv = to_csv(plan.schedule, false);
  for (std::size_t at = 0; at < csv.size();) {
    const std::size_t end = std::min(csv.find("\r\n", at), csv.size());  // the lines of a CSV end so
    text += fmt::format("  - {}\n", quoted_scalar(csv.substr(at, end - at)));
    at = end + 2;
  }
  return text;
}

Plan load_plan(const std::string& path, const Scenario& scenario, const CostModel& model) {
  const NodePtr root = load_document(path);
  ReadLog log;
  MapReader reader(*root, log);
  read_heading(reader, "plan");
  Plan plan{scenario.degrees, {}, {}, {}};  // read again, and held against them
  const Node* batch = reader.require("batch");
  const Node* parallel = reader.require("parallel");
  const Node* devices = reader.require("devices");
  const Node* stages = reader.require("stages");
  const Node* schedule = reader.require("schedule");
  const Node* offload = reader.find("offload");
  const Node* operators = reader.find("recompute");
  const Node* lengths = reader.find("lengths");
  reader.finish();
  log.throw_if_errors();
  read_batch(*batch, log, scenario);
  read_degrees(*parallel, log, scenario, plan);
  if (offload != nullptr) read_offload(*offload, log, scenario);
  if (operators != nullptr) read_operators(*operators, log, scenario);
  plan.devices = read_integers(devices, log);
  if (const std::string problem = device_problem(plan.devices, plan, scenario.cluster); !problem.empty())
    log.error(*devices, problem);
  plan.schedule = read_schedule(*schedule, log);
  const std::vector<UnitCost>& units = model.units(0).units;
  for (const auto& stage : stages->items) plan.stages.push_back(read_stage(*stage, log, units));
  const Schedule& order = plan.schedule;
  if (static_cast<int>(plan.stages.size()) != order.stages)
    log.error(*stages, fmt::format("{} stages are listed, but the schedule has {}", plan.stages.size(), order.stages));
  log.throw_if_errors();
  try {
    check_schedule_fits(scenario.degrees, order);
  } catch (const InputError& error) {
    log.add_at(*schedule, error);
  }
  log.throw_if_errors();
  check_together(scenario, features_of(scenario, plan), Where::Predicted);
  plan.lengths = ordered_lengths(lengths, log, scenario, plan);
  log.throw_if_errors();
  check_cover(*stages, plan, static_cast<int>(units.size()));
  check_overrides(*root, log, scenario, plan, units);
  log.throw_if_errors();
  return plan;
}

}  // namespace panpipe
