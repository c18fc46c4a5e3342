// Reads `schedule:` in its four forms: a name, a list of names, a map with options, and an order.
#include <fmt/format.h>

#include <algorithm>

#include "base/input/declare.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "schedule/find_family.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

// The family, or nullptr after a complaint at the name's place.
const ScheduleFamily* known_family(const Node& at, const std::string& name, ReadLog& log) {
  if (const ScheduleFamily* family = find_family(name)) return family;
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  log.error(at, fmt::format("unknown schedule '{}'{}", name, suggestion(name, names)),
            fmt::format("a schedule is one of {}", list_of(names)), code::kUnknownName);
  return nullptr;
}

// Options of every schedule, also of one from a file.
void read_common_options(MapReader& reader, ScheduleRequest& schedule) {
  if (reader.has("braid")) schedule.braid = reader.choice<Braid>("braid", {{"split", Braid::Split}, {"atomic", Braid::Atomic}});
  for (const char* key : {"recompute", "offload_waiting", "offload_stagger", "post_validation"})
    if (const Node* value = reader.find(key))
      if (const auto text = read_string(*value, reader.log())) schedule.options[key] = *text;
  if (!read_auto(reader, "vocabulary", "whole") && reader.has("vocabulary"))
    schedule.options["vocabulary"] = reader.choice<std::string>("vocabulary", {{"whole", "whole"}, {"stages", "stages"}});
  if (const Node* value = reader.find("vocabulary_barriers"))
    if (const auto text = read_string(*value, reader.log())) schedule.options["vocabulary_barriers"] = *text;
  if (reader.has("offload"))
    schedule.options["offload"] =
        reader.choice<std::string>("offload", {{"none", "none"}, {"selective", "selective"}, {"full", "full"}});
}

void read_options(MapReader& reader, const ScheduleFamily& family, ScheduleOptions& options) {
  for (const auto& option : family.options)
    if (const Node* value = reader.find(std::string(option.first)); value != nullptr && !is_auto(value))
      if (const auto text = read_string(*value, reader.log())) options[std::string(option.first)] = *text;
}

void refuse_options_of_others(MapReader& reader, const ScheduleFamily& family) {
  for (const Node::Entry& entry : reader.node().entries) {
    std::vector<std::string> owners;
    for (const ScheduleFamily& other : schedule_families())
      if (default_option(other, entry.key)) owners.emplace_back(other.name);
    if (owners.empty() || default_option(family, entry.key)) continue;
    reader.refuse(entry.key, fmt::format("the schedule {} has no option '{}'", family.name, entry.key),
                  fmt::format("it is an option of {}", list_of(owners)));
  }
}

// virtual_stages and stages_per_rank are one number with two names.
void reconcile_stages(MapReader& scenario, const ScheduleFamily& family, ScheduleRequest& schedule, Degrees& degrees) {
  const Node* parallel = scenario.node().find("parallel");
  const Node* virtual_stages =
      parallel != nullptr && parallel->kind == NodeKind::Map ? parallel->find("virtual_stages") : nullptr;
  if (is_auto(virtual_stages)) virtual_stages = nullptr;
  const auto fallback = default_option(family, "stages_per_rank");
  const auto given = schedule.options.find("stages_per_rank");
  ReadLog& log = scenario.log();
  if (virtual_stages != nullptr && given != schedule.options.end()) {
    const Node& option = *scenario.node().find("schedule")->find("stages_per_rank");
    log.error(*virtual_stages,
              fmt::format("the stages of a rank are given twice: parallel.virtual_stages ({}) and schedule.stages_per_rank ({})",
                          origin_of(*virtual_stages), origin_of(option)),
              "keep one of the two", code::kConflict);
  } else if (virtual_stages != nullptr && fallback) {
    schedule.options["stages_per_rank"] = std::to_string(degrees.virtual_stages);
  } else if (virtual_stages != nullptr && degrees.virtual_stages > 1) {
    std::vector<std::string> able;
    for (const ScheduleFamily& other : schedule_families())
      if (default_option(other, "stages_per_rank")) able.emplace_back(other.name);
    log.error(*virtual_stages,
              fmt::format("the schedule {} ({}) has no choice of stages per rank", family.name, place_of(scenario, "schedule")),
              fmt::format("virtual_stages is for {}", list_of(able)));
  } else if (given != schedule.options.end()) {
    const Parsed<long long> value = parse_integer(given->second);
    if (value.value && *value.value >= 1 && *value.value <= 1'000'000)
      degrees.virtual_stages = static_cast<int>(*value.value);
    else
      log.error(*scenario.node().find("schedule")->find("stages_per_rank"),
                value.value ? fmt::format("'{}' must be at least 1", given->second) : value.problem);
  } else if (fallback) {
    degrees.virtual_stages = static_cast<int>(parse_integer(*fallback).value.value_or(1));
    schedule.options["stages_per_rank"] = *fallback;
    log.resolved("parallel.virtual_stages", *fallback, fmt::format("default of {}", family.name));
  }
}

// `schedule: [1f1b, zb-h1]`: planners choose among these; other verbs take the first.
void read_schedules_to_choose(const Node& list, ReadLog& log, ScheduleRequest& schedule) {
  bool first = true;
  for (const NodePtr& item : list.items) {
    const auto name = read_string(*item, log);
    if (!name || known_family(*item, *name, log) == nullptr || !first) continue;
    schedule.name = *name;
    first = false;
  }
  if (list.items.empty())
    log.error(list, "an empty list leaves no schedule to choose", "name schedules, or write auto for all of them");
  else
    log.resolved(list.path, schedule.name, origin_of(list) + ", the first of the list");
}

// `schedule: 1f1b`.
void read_named(MapReader& scenario, const Node& node, ScheduleRequest& schedule, Degrees& degrees) {
  const auto name = read_string(node, scenario.log());
  const ScheduleFamily* family = name ? known_family(node, *name, scenario.log()) : nullptr;
  if (family == nullptr) return;
  schedule.name = *name;
  reconcile_stages(scenario, *family, schedule, degrees);
}

// `schedule: {csv: FILE}` or `{name: mine, csv: [rows]}`.
void read_order(MapReader& scenario, MapReader& reader, const Node& csv, ScheduleRequest& schedule) {
  ReadLog& log = scenario.log();
  schedule.name.clear();
  if (csv.kind == NodeKind::Sequence) {
    schedule.csv = reader.string("name");
    schedule.rows = read_order_rows(csv, log);
  } else {
    schedule.csv = read_file_reference(csv, log, "schedule file").value_or("");
    reader.refuse("name", "a schedule has a name or comes from a csv file, not both", "", code::kConflict);
  }
  read_common_options(reader, schedule);
  reader.finish();
  const Node* parallel = scenario.node().find("parallel");
  if (const Node* stages = parallel != nullptr ? parallel->find("virtual_stages") : nullptr)
    log.error(*stages, fmt::format("a schedule from a csv file ({}) brings its own stages", origin_of(csv)),
              "leave virtual_stages out", code::kConflict);
}

// `schedule: {name: 1f1b, ...}`.
void read_with_options(MapReader& scenario, MapReader& reader, ScheduleRequest& schedule, Degrees& degrees) {
  if (read_auto(reader, "name", schedule.name)) {  // with options that every family has
    read_common_options(reader, schedule);
    return reader.finish();
  }
  schedule.name = reader.string("name");
  const Node* name = reader.node().find("name");
  const ScheduleFamily* family =
      name != nullptr && !schedule.name.empty() ? known_family(*name, schedule.name, scenario.log()) : nullptr;
  if (family == nullptr) {
    reader.mark_declared();  // which options there are depends on the family: only what no family knows can be refused
    reader.finish();
    return;
  }
  read_options(reader, *family, schedule.options);
  refuse_options_of_others(reader, *family);
  read_common_options(reader, schedule);
  reader.finish();
  reconcile_stages(scenario, *family, schedule, degrees);
}

// The meanings of the families' options; a test checks that every option has one.
constexpr std::pair<std::string_view, std::string_view> kOptionMeanings[] = {
    {"group", "microbatches of a turn"},
    {"sequence_splits", "slices of a microbatch's sequence"},
    {"exchange", "`on`: ranks share the attention of slices that run at the same time; `off`: each attends on its own"},
    {"stages_per_rank", "stages of a rank; the same as `parallel.virtual_stages`"},
    {"combined", "a steady forward and backward run as one group"},
    {"loop_batch", "microbatches of a turn"},
    {"prefetch", "forwards that a rank runs ahead, for all ranks or one by one"},
    {"execution", "`loop`, `breadth-first` or `pipeless`"},
    {"memory", "limit of the search in activations of a microbatch; of auto-memory also one for each rank"},
    {"effort", "per cent of the search's work"},
    {"base", "the family whose activations are placed, with options behind colons; `auto` tries three"},
    {"forward_slots", "parts of a forward before the one that turns a microbatch round"},
    {"round", "microbatches that a slot runs before the next one"},
    {"backward_slots", "parts of a backward, the first of which turns a microbatch round"},
    {"versions", "of the weights that a rank holds"},
    {"ways", "of activations that leave: `recompute`, `offload` or `both`"},
};

}  // namespace

Key schedule_key() {
  std::vector<Key> keys = {
      declare("name", "the family, or a name for the rows in `csv`; `auto` leaves it open next to `vocabulary`", form::text(),
              Words{"auto"}),
      declare("csv", "an order: a file, or its rows, as in `{name: mine, csv: [\"0F0,0B0\", \"1F0,1B0\"]}`", form::file(),
              items(form::text()), Page{"file-formats.md#schedule-csv"}),
      declare("braid",
              "`split`: the units of a group's members are woven. `atomic`: the members run one after another; the group starts "
              "with all inputs and delivers all outputs at its end",
              Words{"split", "atomic"}, Otherwise{"`split`"}, Page{"models/braids.md"}),
      declare("recompute", "recompute as separate actions: `full`, or of so many stages per rank", form::text(),
              Otherwise{"none"}, Page{"models/transfers.md"}),
      declare("offload", "activations that are parked in the host's memory", Words{"none", "selective", "full"},
              Otherwise{"`none`"}, Page{"models/transfers.md"}),
      declare("offload_waiting", "also parks tensors that stay from I to W", form::truth(), Otherwise{"`false`"},
              Page{"models/transfers.md"}, Example{"false"}),
      declare("offload_stagger", "so many consecutive ranks share one path to the host, and no two of them copy at once",
              form::whole(1), Otherwise{"1"}, Page{"models/transfers.md"}, Example{"1"}),
      declare("post_validation",
              "a rank updates when its own gradients are done and goes on; clipping and overflow are checked afterwards, and an "
              "update that they forbid is taken back",
              form::truth(), Otherwise{"`false`"}, Page{"models/rolling.md"}, Example{"true"}),
      declare("vocabulary",
              "`stages`: embedding and head are cut along the vocabulary over all ranks of the pipeline; in 1f1b, "
              "interleaved-1f1b, 1f1b-v, v-half and v-min. `auto`: `plan` tries both",
              Words{"auto", "whole", "stages"}, Otherwise{"`whole`"}, Page{"models/vocabulary.md"}),
      declare("vocabulary_barriers",
              "exchanges between a microbatch's last forward and its first backward: 1, or 2 with the second pass in between",
              form::whole(1), Otherwise{"1"}, Page{"models/vocabulary.md"}, Example{"2"})};
  for (const ScheduleFamily& family : schedule_families())
    for (const auto& option : family.options) {
      if (std::any_of(keys.begin(), keys.end(), [&](const Key& known) { return known.name == option.first; })) continue;
      Key key =
          declare(std::string(option.first), "", form::text(), Otherwise{"the family's"}, Page{"models/schedules.md#families"});
      for (const auto& [name, meaning] : kOptionMeanings)
        if (name == option.first) key.meaning = meaning;
      keys.push_back(std::move(key));
    }
  return declare(
      "schedule",
      "a family, a map with its options, or a list of families: `plan` searches among these, and the other verbs take the first",
      form::text(), Words{"auto"}, items(form::text()), Inside{std::move(keys)}, Fallback{"1f1b"},
      Page{"models/schedules.md#families"}, InExports::Stated);
}

std::string read_order_rows(const Node& list, ReadLog& log) {
  std::string text;
  for (const NodePtr& row : list.items) text += read_string(*row, log).value_or("") + "\n";
  if (list.items.empty()) log.error(list, "an empty list is no order", "a row of actions for each rank: [\"0F0,0B0\"]");
  return text;
}

Schedule stated_order(const ScheduleRequest& request) {
  return request.rows.empty() ? load_schedule_csv(request.csv) : read_schedule_csv(request.rows, request.csv);
}

ScheduleRequest read_schedule(MapReader& scenario, Degrees& degrees) {
  ScheduleRequest schedule;
  const Node* node = scenario.find("schedule");
  if (read_auto(scenario, "schedule", schedule.name)) return schedule;
  if (node == nullptr) {
    scenario.log().resolved("schedule", schedule.name, "default");
    reconcile_stages(scenario, *find_family(schedule.name), schedule, degrees);
  } else if (node->kind == NodeKind::Sequence) {
    read_schedules_to_choose(*node, scenario.log(), schedule);
  } else if (node->kind != NodeKind::Map) {
    read_named(scenario, *node, schedule, degrees);
  } else {
    MapReader reader(*node, scenario.log());
    if (const Node* csv = reader.find("csv"))
      read_order(scenario, reader, *csv, schedule);
    else
      read_with_options(scenario, reader, schedule, degrees);
  }
  return schedule;
}

}  // namespace panpipe
