#include "costmodel/scenario/read_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/input/key_record.hpp"
#include "base/text/counted.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/degrees/check_degrees.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "schedule/find_family.hpp"

namespace panpipe {

namespace {

// "a.yaml:7" of the last value recorded for a path; the enclosing key's when the value is a default.
std::string place_of(MapReader& scenario, const std::string& path) {
  const auto& values = scenario.log().resolved_values();
  for (auto value = values.rbegin(); value != values.rend(); ++value)
    if (value->path == path && value->origin != "default") return value->origin;
  const Node* parent = scenario.node().find(path.substr(0, path.find('.')));
  return parent != nullptr ? origin_of(*parent) : origin_of(scenario.node());
}

std::string device_place(MapReader& scenario) {
  const auto& values = scenario.log().resolved_values();
  for (const char* path : {"cluster.devices", "cluster.nodes"})
    for (const ResolvedValue& value : values)
      if (value.path == path && value.origin != "default") return value.origin;
  return place_of(scenario, "cluster");
}

// The node to put a caret at for a complaint about the degrees: the key, `parallel` itself, or the whole scenario.
const Node& parallel_node(MapReader& scenario, std::string_view key) {
  const Node* parallel = scenario.node().find("parallel");
  if (parallel == nullptr) return scenario.node();
  const Node* value = parallel->kind == NodeKind::Map ? parallel->find(std::string(key)) : nullptr;
  return value != nullptr ? *value : *parallel;
}

// The family, or nullptr after a complaint at the name's place.
const ScheduleFamily* known_family(const Node& at, const std::string& name, ReadLog& log) {
  if (const ScheduleFamily* family = find_family(name)) return family;
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  log.error(at, fmt::format("unknown schedule '{}'{}", name, suggestion(name, names)),
            fmt::format("a schedule is one of {}", list_of(names)));
  return nullptr;
}

// Options of every schedule, also of one from a file.
void read_common_options(MapReader& reader, ScheduleRequest& schedule) {
  if (reader.has("braid")) schedule.braid = reader.choice<Braid>("braid", {{"split", Braid::Split}, {"atomic", Braid::Atomic}});
  for (const char* key : {"recompute", "offload_waiting", "offload_stagger"})
    if (const Node* value = reader.find(key))
      if (const auto text = read_string(*value, reader.log())) schedule.options[key] = *text;
  if (reader.has("offload"))
    schedule.options["offload"] =
        reader.choice<std::string>("offload", {{"none", "none"}, {"selective", "selective"}, {"full", "full"}});
}

bool is_auto(const Node* node) { return node != nullptr && node->kind == NodeKind::Scalar && node->text == "auto"; }

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
    reader.find(entry.key);
    reader.log().error_at_key(reader.node(), entry.key, fmt::format("the schedule {} has no option '{}'", family.name, entry.key),
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
              "keep one of the two");
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

// An optional map of the scenario. If absent, an empty map is read, so that its defaults are read and recorded in the same way.
class Section {
 public:
  Section(MapReader& scenario, const std::string& key) : written_(scenario.find(key)) {
    absent_.kind = NodeKind::Map;
    absent_.path = key;
    absent_.source = scenario.node().source;
  }
  const Node& node() const { return written_ != nullptr ? *written_ : absent_; }

 private:
  const Node* written_;
  Node absent_;
};

}  // namespace

const Node* name_node(const Node& value) { return value.kind == NodeKind::Map ? value.find("name") : &value; }

bool read_auto(MapReader& reader, const std::string& key, const std::string& fallback) {
  note_words(reader.node(), reader.node().path.empty() ? key : reader.node().path + "." + key, {"auto"});
  if (!is_auto(reader.node().find(key))) return false;
  const Node& node = *reader.find(key);
  if (!fallback.empty()) reader.log().resolved(node.path, fallback, origin_of(node) + ", auto");
  return true;
}

namespace {

// A list of names, each once.
template <class Value>
std::vector<Value> read_recomputed(const Node& list, const char* what, const Choices<Value>& choices, ReadLog& log) {
  std::vector<Value> values;
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.first);
  const std::string help = fmt::format("{}s that can be recomputed: {}", what, list_of(names));
  if (list.kind != NodeKind::Sequence || list.items.empty()) {
    log.error(list, fmt::format("expected a list of {}s", what), help);
    return values;
  }
  for (const NodePtr& item : list.items) {
    const auto word = read_string(*item, log);
    if (!word) continue;
    const auto known = std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.first == *word; });
    if (known == choices.end())
      log.error(*item, fmt::format("unknown {} '{}'{}", what, *word, suggestion(*word, names)), help);
    else if (std::find(values.begin(), values.end(), known->second) != values.end())
      log.error(*item, fmt::format("'{}' stands twice in the list", *word));
    else
      values.push_back(known->second);
  }
  return values;
}

// A layer of experts holds what its parts name; the core of attention is the operator of that name.
void read_recomputed_modules(const Node& list, ReadLog& log, RecomputeScope& scope) {
  scope.modules = read_recomputed(list, "module", recomputed_modules(), log);
  const auto has = [&](RecomputedModule module) {
    return std::find(scope.modules.begin(), scope.modules.end(), module) != scope.modules.end();
  };
  for (const auto& [part, name] :
       {std::pair(RecomputedModule::MoeActivation, "moe_act"), std::pair(RecomputedModule::SharedExperts, "shared_experts")})
    if (has(RecomputedModule::Moe) && has(part))
      log.error(list, fmt::format("'moe' makes the whole layer of experts again, '{}' with it", name),
                fmt::format("leave '{}' out, or 'moe'", name));
  if (!has(RecomputedModule::CoreAttention)) return;
  std::erase(scope.modules, RecomputedModule::CoreAttention);
  if (std::find(scope.operators.begin(), scope.operators.end(), RecomputedKind::Attention) == scope.operators.end())
    scope.operators.push_back(RecomputedKind::Attention);
}

}  // namespace

void read_recompute(MapReader& reader, Scenario& scenario) {
  if (read_auto(reader, "recompute", "none")) return;
  const Node* node = reader.node().find("recompute");
  if (node == nullptr || node->kind != NodeKind::Map) {
    scenario.recompute = reader.choice<Recompute>("recompute", recompute_modes(), Recompute::None);
    return;
  }
  MapReader map(*reader.find("recompute"), reader.log());
  const Node *operators = map.find("operators"), *modules = map.find("modules");
  const Node* list = operators != nullptr ? operators : modules;
  if (list == nullptr && !map.has("every") && !map.has("first") && !map.has("chunk"))
    reader.log().error(
        *node, "recompute says neither which blocks nor which operators",
        "as in 'recompute: {every: 2}', '{first: 4}', '{chunk: 2}', '{operators: [norms, elementwise]}' or '{modules: "
        "[core_attn, mlp]}'");
  scenario.recompute = list != nullptr ? Recompute::Selective : Recompute::Full;
  RecomputeScope& scope = scenario.recompute_scope;
  scope.every = map.integer("every", 1, 1);
  const Node *first = map.find("first"), *chunk = map.find("chunk");
  if (first != nullptr) scope.first = map.integer("first", 1);
  if (chunk != nullptr) scope.chunk = map.integer("chunk", 1);
  if (scope.every > 1 && first != nullptr)
    reader.log().error(*first, "'every' and 'first' both say which blocks recompute", "keep one of the two");
  if (chunk != nullptr && (list != nullptr || scope.every > 1 || first != nullptr))
    reader.log().error(*chunk, "blocks that are made again together are so throughout, as a whole", "state 'chunk' alone");
  if (list != nullptr) scope.operators.clear();
  if (operators != nullptr) scope.operators = read_recomputed(*operators, "operator", recomputed_kinds(), reader.log());
  if (modules != nullptr) read_recomputed_modules(*modules, reader.log(), scope);
  if (list != nullptr && !scenario.workload.layers_file.empty())
    reader.log().error(*list, "which operators a measured layer holds is not known",
                       "name blocks, as in 'recompute: {every: 2}'");
  map.finish();
}

namespace {

// One key of `parallel:`.
void read_axis(MapReader& reader, const Axis& axis, Degrees& degrees) {
  const std::string key(axis.key);
  const bool has_default = axis.otherwise.empty();
  if (axis.searched && read_auto(reader, key, has_default ? axis.text(Degrees{}) : "")) return;
  if (reader.find(key) == nullptr && !has_default) return;
  axis.put(degrees, axis.flag != nullptr ? int{reader.boolean(key, false)} : reader.integer(key, axis.least, axis.of(Degrees{})));
}

}  // namespace

void suggest_names(MapReader& reader, std::span<const NamePair> names, const std::string& prefix) {
  for (const auto& [given, name] : names)
    if (const std::string key(given); reader.node().find(key) != nullptr && reader.find(key) != nullptr)
      reader.log().error_at_key(reader.node(), key,
                                fmt::format("unknown key '{}', {}", given, did_you_mean(prefix + std::string(name))), "",
                                code::kUnknownKey);
}

std::vector<NamePair> other_degree_names() {
  std::vector<NamePair> names;
  for (const Axis& axis : kAxes)
    if (!axis.short_name.empty()) names.emplace_back(axis.short_name, axis.key);
  return names;
}

void read_parallel(MapReader& reader, Scenario& scenario) {
  Degrees& degrees = scenario.degrees;
  degrees.pipeline = 0;
  const Section section(reader, "parallel");
  MapReader parallel(section.node(), reader.log());
  for (const Axis& axis : kAxes) read_axis(parallel, axis, degrees);
  if (parallel.find("context_exchange") != nullptr)  // among the known keys when absent
    scenario.context_exchange = parallel.choice<ContextExchange>(
        "context_exchange",
        {{"ring", ContextExchange::Ring}, {"all-gather", ContextExchange::AllGather}, {"ulysses", ContextExchange::Ulysses}});
  // A planner may choose what is open: only what holds for any choice is checked.
  for (const DegreeProblem& problem : check_degrees(degrees, {.replicas = !is_auto(section.node().find("data")), .all = false}))
    reader.log().error(parallel_node(reader, problem.key), problem.message, problem.help);
  suggest_names(parallel, other_degree_names());
  parallel.finish();
}

void fit_to_devices(MapReader& scenario, const Cluster& cluster, Degrees& degrees) {
  DegreeFacts facts{.devices = cluster.size(), .devices_from = device_place(scenario), .replicas = false, .all = false};
  if (degrees.pipeline > 0) {
    facts.stated = place_of(scenario, "parallel.pipeline");
    for (const DegreeProblem& problem : check_degrees(degrees, facts))
      scenario.log().error(parallel_node(scenario, problem.key), problem.message, problem.help);
    return;
  }
  const double product = static_cast<double>(degrees.tensor) * degrees.data * degrees.context;
  const std::int64_t per_rank = product > static_cast<double>(facts.devices) ? facts.devices + 1 : degrees.devices_of_rank();
  const std::string words = fmt::format("tensor {} x {}", degrees.tensor, replicas_text(degrees));
  if (facts.devices % per_rank != 0) {
    const std::string origin = origin_of(parallel_node(scenario, "tensor"));
    degrees.pipeline = 1;
    if (per_rank > facts.devices)
      scenario.log().error(parallel_node(scenario, "tensor"),
                           fmt::format("parallel asks for {:.0f} devices per pipeline rank ({}, {}) but {}", product, words,
                                       origin, devices_text(facts)));
    else
      scenario.log().error(parallel_node(scenario, "tensor"),
                           fmt::format("{}, which cannot be split into pipeline ranks of {} ({}, {})", devices_text(facts),
                                       per_rank, words, origin),
                           "state parallel.pipeline to leave devices unused");
    return;
  }
  degrees.pipeline = static_cast<int>(facts.devices / per_rank);
  scenario.log().resolved("parallel.pipeline", std::to_string(degrees.pipeline),
                          fmt::format("derived: {} / ({})", counted(facts.devices, "device"), words));
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

// `schedule: [1f1b, zb-h1]`: planners choose among these; whoever plans nothing takes the first.
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

ScheduleRequest read_schedule(MapReader& scenario, Degrees& degrees) {
  ScheduleRequest schedule;
  ReadLog& log = scenario.log();
  const Node* node = scenario.find("schedule");
  if (read_auto(scenario, "schedule", schedule.name)) return schedule;
  if (node == nullptr) {
    log.resolved("schedule", schedule.name, "default");
    reconcile_stages(scenario, *find_family(schedule.name), schedule, degrees);
    return schedule;
  }
  if (node->kind == NodeKind::Sequence) {
    read_schedules_to_choose(*node, log, schedule);
    return schedule;
  }
  if (node->kind != NodeKind::Map) {
    const auto name = read_string(*node, log);
    const ScheduleFamily* family = name ? known_family(*node, *name, log) : nullptr;
    if (family == nullptr) return schedule;
    schedule.name = *name;
    reconcile_stages(scenario, *family, schedule, degrees);
    return schedule;
  }
  MapReader reader(*node, log);
  if (const Node* csv = reader.find("csv")) {
    schedule.name.clear();
    if (csv->kind == NodeKind::Sequence) {
      schedule.csv = reader.string("name");
      schedule.rows = read_order_rows(*csv, log);
    } else {
      schedule.csv = read_file_reference(*csv, log, "schedule file").value_or("");
      if (reader.find("name") != nullptr)
        log.error_at_key(*node, "name", "a schedule has a name or comes from a csv file, not both");
    }
    read_common_options(reader, schedule);
    reader.finish();
    const Node* parallel = scenario.node().find("parallel");
    if (const Node* stages = parallel != nullptr ? parallel->find("virtual_stages") : nullptr)
      log.error(*stages, fmt::format("a schedule from a csv file ({}) brings its own stages", origin_of(*csv)),
                "leave virtual_stages out");
    return schedule;
  }
  schedule.name = reader.string("name");
  const ScheduleFamily* family =
      node->find("name") != nullptr && !schedule.name.empty() ? known_family(*node->find("name"), schedule.name, log) : nullptr;
  if (family == nullptr) {
    // Which options there are depends on the family: only what no family knows can be refused.
    for (const ScheduleFamily& other : schedule_families())
      for (const auto& option : other.options) reader.find(std::string(option.first));
    for (const char* common : {"braid", "recompute", "offload", "offload_waiting", "offload_stagger"}) reader.find(common);
    reader.finish();
    return schedule;
  }
  read_options(reader, *family, schedule.options);
  refuse_options_of_others(reader, *family);
  read_common_options(reader, schedule);
  reader.finish();
  reconcile_stages(scenario, *family, schedule, degrees);
  return schedule;
}

TransferRules read_transfers(MapReader& scenario, bool framework_blocks, const std::string& framework) {
  using Semantics = TransferRules::Semantics;
  const Section section(scenario, "transfers");
  MapReader reader(section.node(), scenario.log());
  TransferRules rules;
  if (reader.has("semantics"))
    rules.semantics = reader.choice<Semantics>(
        "semantics",
        {{"asynchronous", Semantics::Asynchronous}, {"blocking", Semantics::Blocking}, {"batched", Semantics::Batched}});
  else
    scenario.log().resolved("transfers.semantics", framework_blocks ? "blocking" : "asynchronous", framework);
  rules.braid_inputs = reader.choice<TransferRules::BraidInputs>(
      "braid_inputs", {{"together", TransferRules::BraidInputs::Together}, {"unit", TransferRules::BraidInputs::Unit}},
      TransferRules::BraidInputs::Together);
  rules.braid_outputs = reader.choice<TransferRules::BraidOutputs>(
      "braid_outputs", {{"end", TransferRules::BraidOutputs::End}, {"unit", TransferRules::BraidOutputs::Unit}},
      TransferRules::BraidOutputs::End);
  rules.full_backward_sends = reader.choice<TransferRules::FullBackwardSends>(
      "full_backward_sends",
      {{"end", TransferRules::FullBackwardSends::End}, {"input_gradient", TransferRules::FullBackwardSends::InputGradient}},
      TransferRules::FullBackwardSends::End);
  rules.batch_after = reader.choice<TransferRules::BatchAfter>(
      "batch_after", {{"cell", TransferRules::BatchAfter::Cell}, {"pair", TransferRules::BatchAfter::Pair}},
      TransferRules::BatchAfter::Cell);
  rules.batch_receives = reader.choice<TransferRules::BatchReceives>(
      "batch_receives", {{"as_needed", TransferRules::BatchReceives::AsNeeded}, {"late", TransferRules::BatchReceives::Late}},
      TransferRules::BatchReceives::AsNeeded);
  reader.finish();
  return rules;
}

std::vector<std::string> read_partition(MapReader& scenario) {
  std::vector<std::string> cuts;
  ReadLog& log = scenario.log();
  const Node* node = scenario.find("partition");
  note_words(scenario.node(), "partition", {"auto"});
  if (node == nullptr) {
    log.resolved("partition", "auto", "default");
    return cuts;
  }
  if (node->kind != NodeKind::Sequence) {
    if (node->kind == NodeKind::Scalar && node->text == "auto")
      log.resolved(node->path, "auto", origin_of(*node));
    else
      log.error(*node, "a partition is 'auto' or a list of the units that start a stage after the first",
                "as in 'partition: [12, 24]' or 'partition: [block.12, block.24]'");
    return cuts;
  }
  std::map<std::string, const Node*> seen;
  for (const auto& item : node->items) {
    const auto cut = read_string(*item, log);
    if (!cut) continue;
    if (const auto [first, is_new] = seen.emplace(*cut, item.get()); !is_new)
      log.error(*item, fmt::format("the partition starts two stages at '{}'", *cut));
    cuts.push_back(*cut);
  }
  if (node->items.empty()) log.resolved(node->path, "[]", origin_of(*node));
  return cuts;
}

std::optional<std::vector<int>> read_placement(MapReader& scenario, const Cluster& cluster, const Degrees& degrees) {
  const Node* node = scenario.find("placement");
  if (node == nullptr || read_auto(scenario, "placement", "")) return std::nullopt;
  ReadLog& log = scenario.log();
  if (node->kind != NodeKind::Sequence) {
    log.error(*node, "a placement is a list of device numbers, tensor fastest, then data, then pipeline",
              "as in 'placement: [0, 2, 1, 3]'; leave it out for 0, 1, 2 ...");
    return std::nullopt;
  }
  std::vector<int> placement;
  std::map<int, const Node*> seen;
  bool whole = true;
  for (const auto& item : node->items) {
    const auto device = read_integer(*item, log, 0);
    if (!device) {
      whole = false;
      continue;
    }
    if (*device >= cluster.size())
      log.error(*item, fmt::format("there is no device {}; the cluster has {}, numbered from 0 ({})", *device,
                                   counted(cluster.size(), "device"), device_place(scenario)));
    else if (const auto [first, is_new] = seen.emplace(*device, item.get()); !is_new)
      log.error(*item, fmt::format("device {} is placed twice, first as {}", *device, first->second->path));
    placement.push_back(*device);
  }
  const int wanted = degrees.device_count();  // no more than there are
  if (whole && placement.size() != static_cast<std::size_t>(wanted))
    log.error(*node, fmt::format("the placement lists {}, but parallel asks for {} ({}, {})",
                                 counted(static_cast<long long>(placement.size()), "device"), wanted, product_text(degrees),
                                 scenario.has("parallel") ? place_of(scenario, "parallel") : "default"));
  return placement;
}

namespace {

// Keys of `data` in addition to its source, which only files have.
void read_about_files(MapReader& reader, DataRequest& data) {
  ReadLog& log = reader.log();
  const bool synthetic = data.kind == DataRequest::Kind::Synthetic;
  const Node* width = reader.find("width");
  const Node* shuffle = reader.find("shuffle");
  const Node* validation = reader.find("validation");
  const Node* held_out = reader.find("held_out");
  for (const Node* node : {width, shuffle, validation, held_out})
    if (synthetic && node != nullptr)
      log.error(*node, "synthetic data are drawn sample by sample, and there is no file of them",
                "name a file: {tensors: FILE} or {tokens: FILE}");
  if (synthetic) return;
  if (width != nullptr && data.kind == DataRequest::Kind::Tensors) {
    log.error(*width, "'width' is of tokens; a file of tensors says how wide its numbers are");
  } else if (width != nullptr) {
    data.width = read_integer(*width, log, 1).value_or(0);
    if (data.width != 0 && data.width != 16 && data.width != 32)
      log.error(*width, fmt::format("tokens have 16 or 32 bits, not {}", data.width));
  }
  if (shuffle != nullptr) data.shuffle = read_boolean(*shuffle, log).value_or(false);
  if (validation != nullptr) data.validation = read_file_reference(*validation, log, "file of validation data").value_or("");
  if (held_out == nullptr) return;
  const std::optional<double> share = read_fraction(*held_out, log);
  data.held_out = share.value_or(0);
  if (validation != nullptr)
    log.error(*held_out, fmt::format("'held_out' and 'validation' ({}) exclude each other", origin_of(*validation)),
              "keep one of the two");
  else if (share && (*share <= 0 || *share >= 1))
    log.error(*held_out, "what is held out must be above 0 % and below 100 %", "as in 'held_out: 5 %'");
}

}  // namespace

DataRequest read_data(MapReader& scenario) {
  DataRequest data;
  const Node* node = scenario.find("data");
  if (node == nullptr) return data;
  ReadLog& log = scenario.log();
  MapReader reader(*node, log);
  const Node* synthetic = reader.find("synthetic");
  const Node* tensors = reader.find("tensors");
  const Node* tokens = reader.find("tokens");
  int given = 0, about = 0;
  for (const Node* source : {synthetic, tensors, tokens}) given += source != nullptr;
  for (const char* key : {"width", "shuffle", "validation", "held_out"}) about += reader.find(key) != nullptr;
  reader.finish();
  if (node->kind != NodeKind::Map) return data;
  if (given != 1) {
    if (given + about == static_cast<int>(node->entries.size()))  // else unknown keys were complained about
      log.error(*node, node->entries.empty() ? "'data' is empty" : "'data' takes exactly one source",
                "write {synthetic: true}, {tensors: FILE} or {tokens: FILE}");
    return data;
  }
  if (synthetic != nullptr) {
    if (const auto value = read_boolean(*synthetic, log); value && !*value)
      log.error(*synthetic, "'synthetic' can only be true", "leave 'data' out, or name a file of tensors or tokens");
  } else {
    data.kind = tensors != nullptr ? DataRequest::Kind::Tensors : DataRequest::Kind::Tokens;
    const Node& file = tensors != nullptr ? *tensors : *tokens;
    data.file = read_file_reference(file, log, tensors != nullptr ? "file of tensors" : "file of tokens").value_or("");
  }
  read_about_files(reader, data);
  return data;
}

}  // namespace panpipe
