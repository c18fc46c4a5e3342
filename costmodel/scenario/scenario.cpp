#include "costmodel/scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/profile/load_profiles.hpp"
#include "costmodel/scenario/default_framework.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/scenario/resolve_document.hpp"
#include "schedule/find_family.hpp"
#include "schedule/limits.hpp"

namespace panpipe {

namespace {

Choices<Precision> precisions() {
  return {{"fp32", Precision::Fp32}, {"tf32", Precision::Tf32},          {"bf16", Precision::Bf16},
          {"fp16", Precision::Fp16}, {"bf16-pure", Precision::Bf16Pure}, {"fp16-pure", Precision::Fp16Pure},
          {"fp8", Precision::Fp8},   {"mxfp8", Precision::Mxfp8}};
}

// Turns a scalar that abbreviates {key: scalar} into that map, so that an override of another of its keys has a map to change.
void widen(Node& root, const std::string& name, const std::string& key) {
  for (Node::Entry& entry : root.entries) {
    if (entry.key != name || entry.value->kind != NodeKind::Scalar) continue;
    auto map = std::make_shared<Node>(*entry.value);
    map->kind = NodeKind::Map;
    map->text.clear();
    entry.value->path += "." + key;
    map->entries.push_back({key, entry.value->line, entry.value->column, entry.value});
    entry.value = map;
  }
}

// The family named by the scenario's `schedule: {name: ...}`; nullptr if it is not such a map.
const ScheduleFamily* family_named_in(const Node& root) {
  const Node* schedule = root.kind == NodeKind::Map ? root.find("schedule") : nullptr;
  const Node* name = schedule != nullptr && schedule->kind == NodeKind::Map ? schedule->find("name") : nullptr;
  return name != nullptr && name->kind == NodeKind::Scalar ? find_family(name->text) : nullptr;
}

// If an override names another family, drops the file's options of the former one; those of overrides stay, and are refused.
void drop_options_of(const ScheduleFamily* before, Node& root) {
  const ScheduleFamily* now = family_named_in(root);
  if (before == nullptr || now == nullptr || before == now) return;
  for (Node::Entry& entry : root.entries) {
    if (entry.key != "schedule") continue;
    auto map = std::make_shared<Node>(*entry.value);
    map->entries.erase(std::remove_if(map->entries.begin(), map->entries.end(),
                                      [&](const Node::Entry& option) {
                                        return !option.value->overridden && default_option(*before, option.key) &&
                                               !default_option(*now, option.key);
                                      }),
                       map->entries.end());
    entry.value = map;
  }
}

// The two ways to count a batch; each follows from the other.
constexpr std::pair<const char*, const char*> kBatchCounts[] = {{"microbatches", "global"}, {"global", "microbatches"}};

// If an override or a plan counts the batch in one way, drops the file's count in the other way. That of another override stays,
// and is refused.
void drop_other_count(Node& root, const std::string& counted) {
  for (Node::Entry& entry : root.entries)
    if (entry.key == "batch" && entry.value->kind == NodeKind::Map)
      for (const auto& counts : kBatchCounts)
        if (counted == counts.first)
          std::erase_if(entry.value->entries,
                        [&](const Node::Entry& stated) { return stated.key == counts.second && !stated.value->overridden; });
}

void apply_overrides(Node& root, const std::vector<std::string>& overrides) {
  ReadLog log;
  for (const std::string& assignment : overrides) {
    const ScheduleFamily* family = family_named_in(root);
    const std::string name = assignment.substr(0, assignment.find_first_of(".[="));
    const bool goes_inside = name.size() < assignment.size() && assignment[name.size()] == '.';
    if (goes_inside && root.kind == NodeKind::Map) {
      if (name == "schedule" || name == "optimizer" || name == "framework") widen(root, name, "name");
      if (name == "workload") widen(root, name, "model");
      if (name == "cluster")
        for (Node::Entry& entry : root.entries)
          if (entry.key == name) entry.value = overridable_reference(entry.value);
    }
    try {
      apply_override(root, assignment);
      if (assignment.rfind("schedule.name=", 0) == 0) drop_options_of(family, root);
      if (assignment.rfind("batch.", 0) == 0) drop_other_count(root, assignment.substr(6, assignment.find('=') - 6));
    } catch (const InputError& error) {
      log.add(error);
    }
  }
  log.throw_if_errors();
}

void check_heading(MapReader& reader) {
  ReadLog& log = reader.log();
  const Node* kind = reader.node().find("kind");
  if (kind != nullptr && kind->kind == NodeKind::Scalar && kind->text != "scenario") {
    // Another kind of file altogether: one sentence instead of a complaint about each of its keys.
    log.error(*kind, fmt::format("this is a file of kind '{}', not a scenario", kind->text));
    log.throw_if_errors();
  }
  if (const Node* version = reader.require("panpipe"))
    if (const auto number = read_integer(*version, log, 1); number && *number != 1)
      log.error(*version, fmt::format("this version of panpipe reads format 1, not {}", *number));
  if (const Node* description = reader.find("description")) read_string(*description, log);
}

std::optional<Cluster> read_cluster_part(MapReader& reader) {
  const Node* node = reader.require("cluster");
  if (node == nullptr) return std::nullopt;
  ReadLog own;
  try {
    Cluster cluster = read_cluster(*node, own);
    for (const ResolvedValue& value : own.resolved_values()) reader.log().resolved(value.path, value.value, value.origin);
    own.throw_if_errors();
    return cluster;
  } catch (const InputError& error) {
    reader.log().add(error);
    return std::nullopt;
  }
}

WorkloadRequest read_workload_part(MapReader& reader) {
  const Node* node = reader.require("workload");
  if (node == nullptr) return {};
  try {
    return read_workload(*node, reader.log());
  } catch (const InputError& error) {
    reader.log().add(error);
    return {};
  }
}

Framework read_framework(MapReader& reader, const WorkloadRequest& workload, bool given_cluster) {
  const Node* node = reader.find("framework");
  // Devices written in place have no kernels that a framework could launch.
  if (node == nullptr && given_cluster) return {};
  const DefaultFramework fallback = default_framework(workload);
  if (node == nullptr) reader.log().resolved("framework", fallback.name, fallback.origin);
  try {
    if (node == nullptr) return load_framework(fallback.name, "");
    if (node->kind == NodeKind::Map) return read_framework_choices(*node, fallback.name, reader.log());
    const auto name = read_string(*node, reader.log());
    if (!name) return {};
    return load_framework(*name, node->source->directory);
  } catch (const InputError& error) {
    if (node != nullptr)
      reader.log().add_at(*node, error);
    else
      reader.log().add(error);
    return {};
  }
}

std::shared_ptr<const Profile> read_profile_part(MapReader& reader) {
  const Node* node = reader.find("profile");
  if (node == nullptr) return nullptr;
  std::vector<std::string> paths;
  const bool several = node->kind == NodeKind::Sequence;
  const auto add = [&](const Node& item) {
    if (const auto path = read_file_reference(item, reader.log(), "profile")) paths.push_back(*path);
  };
  if (several)
    for (const auto& item : node->items) add(*item);
  else
    add(*node);
  if (several && node->items.empty()) reader.log().error(*node, "'profile' names no file", "name one, or leave the key out");
  if (paths.empty()) return nullptr;
  try {
    return std::make_shared<const Profile>(load_profiles(paths));
  } catch (const InputError& error) {
    reader.log().add(error);
    return nullptr;
  }
}

// The names of other trainers.
constexpr NamePair kOtherBatchNames[] = {{"micro_batch_size", "micro"},        {"microbatch_size", "micro"},
                                         {"global_batch_size", "global"},      {"train_batch_size", "global"},
                                         {"num_microbatches", "microbatches"}, {"gradient_accumulation_steps", "microbatches"}};

// The samples of a step over all replicas, where the scenario states them: `microbatches` then follow from the degrees.
std::optional<int> read_batch(MapReader& reader, Scenario& scenario) {
  const Node* node = reader.require("batch");
  if (node == nullptr) return std::nullopt;
  MapReader batch(*node, reader.log());
  if (!read_auto(batch, "micro", "1")) scenario.degrees.micro = batch.integer("micro", 1);
  const Node* counted = batch.find("microbatches");
  std::optional<int> global;
  if (const Node* stated = batch.find("global")) {
    global = read_integer(*stated, reader.log(), 1);
    if (counted != nullptr)
      reader.log().error(*stated, fmt::format("batch.global and batch.microbatches ({}) exclude each other", origin_of(*counted)),
                         "keep one of the two: microbatches = global / (micro x data)");
  } else {
    scenario.degrees.microbatches = batch.integer("microbatches", 1);
  }
  suggest_names(batch, kOtherBatchNames);
  batch.finish();
  return global;
}

void divide_batch(MapReader& reader, int global, Scenario& scenario) {
  const int data = scenario.degrees.data;
  const long long together = static_cast<long long>(scenario.degrees.micro) * data;
  if (const long long below = global / together * together; below != global) {
    const std::string nearest = below > 0 ? fmt::format("the nearest that fit are {} and {}", below, below + together)
                                          : fmt::format("the least that fits is {}", together);
    reader.log().error(*reader.node().find("batch")->find("global"),
                       fmt::format("a global batch of {} is no multiple of {} (micro {} x data {})", global, together,
                                   scenario.degrees.micro, data),
                       "microbatches = global / (micro x data); " + nearest);
    return;
  }
  scenario.degrees.microbatches = static_cast<int>(global / together);
  reader.log().resolved("batch.microbatches", std::to_string(scenario.degrees.microbatches),
                        fmt::format("derived: global {} / (micro {} x data {})", global, scenario.degrees.micro, data));
}

// Reports sizes beyond every schedule at the number's place, since the schedule may not be written at all.
void check_sizes(MapReader& reader, const Scenario& scenario) {
  const auto written = [&](const char* map, std::initializer_list<const char*> keys) {
    const Node* node = reader.node().find(map);
    for (const char* key : keys)
      if (node != nullptr && node->kind == NodeKind::Map && node->find(key) != nullptr) return node->find(key);
    return static_cast<const Node*>(nullptr);
  };
  const auto check = [&](const char* what, int value, int most, const Node* at) {
    if (value > most && at != nullptr) reader.log().error(*at, fmt::format("{} must be 1 to {}, not {}", what, most, value));
  };
  const Node* ranks = written("parallel", {"pipeline"});
  if (ranks == nullptr) ranks = written("cluster", {"nodes", "devices"});
  check("ranks", scenario.degrees.pipeline, kMaxRanks, ranks != nullptr ? ranks : reader.node().find("cluster"));
  check("microbatches", scenario.degrees.microbatches, kMaxMicrobatches, written("batch", {"global", "microbatches"}));
}

void read_choices(MapReader& reader, Scenario& scenario) {
  scenario.precision = reader.choice<Precision>("precision", precisions(), Precision::Fp32);
  read_recompute(reader, scenario);
  scenario.memory_model = reader.choice<MemoryModelKind>(
      "memory_model", {{"full", MemoryModelKind::Full}, {"pfeife", MemoryModelKind::Pfeife}}, MemoryModelKind::Full);
  scenario.tied_embedding = reader.choice<TiedEmbedding>(
      "tied_embedding", {{"copy", TiedEmbedding::Copy}, {"one-rank", TiedEmbedding::OneRank}}, TiedEmbedding::Copy);
  if (reader.find("overlap_gradients") != nullptr)  // among the known keys when absent
    scenario.overlap_gradients = reader.boolean("overlap_gradients", false);
  if (reader.find("gradient_bucket") != nullptr)  // among the known keys when absent
    scenario.gradient_bucket = reader.bytes("gradient_bucket", Sign::Positive);
  scenario.seed = reader.integer("seed", 0, 0);
}

void read_usable(MapReader& reader, const std::optional<Cluster>& cluster, Scenario& scenario) {
  if (reader.find("usable") != nullptr)  // among the known keys when absent
    scenario.usable = reader.fraction("usable");
  else if (cluster)
    scenario.usable = cluster->usable;
}

void read_transfer_rules(MapReader& reader, bool given_cluster, Scenario& scenario) {
  // Given times and links are complete: the lowering then makes no rank wait for a send.
  const bool given = given_cluster || !scenario.workload.layers_file.empty();
  const std::string origin = given ? "default" : fmt::format("framework {}", scenario.framework.name);
  scenario.transfers = read_transfers(reader, scenario.framework.blocking_transfers && !given, origin);
  scenario.collectives_run_on = reader.choice<bool>("trailing_collectives", {{"awaited", false}, {"overlapped", true}}, false);
}

void check_shard(MapReader& reader, const Scenario& scenario) {
  if (scenario.degrees.shard == 0 || scenario.degrees.zero > 0 || scenario.framework.distributed_optimizer) return;
  const Node* zero = reader.node().find("parallel")->find("zero");
  if (zero != nullptr && zero->text == "auto") return;
  reader.log().error(*reader.node().find("parallel")->find("shard"), "shard says over how many ranks ZeRO divides, but zero is 0",
                     "state zero 1, 2 or 3, or leave shard out");
}

// Its blocks would be gathered once for the recompute and again for their backward, which no engine counts.
void check_chunk(MapReader& reader, const Scenario& scenario) {
  if (scenario.recompute_scope.chunk <= 1 || scenario.degrees.zero < 3 || scenario.degrees.data * scenario.degrees.context == 1)
    return;
  reader.log().error(
      *reader.node().find("recompute")->find("chunk"),
      "ZeRO 3 gathers parameters block by block, and would gather those of blocks that are made again together twice",
      "state zero 0, 1 or 2, or 'recompute: full', which makes each block again by itself");
}

void check_evaluation(MapReader& reader, const Scenario& scenario) {
  const bool held_out = !scenario.data.validation.empty() || scenario.data.held_out > 0;
  const Node* training = reader.node().find("training");
  if (scenario.training.evaluate_every == 0 || held_out || reader.log().has_errors()) return;
  reader.log().error_at_key(*training, "evaluate", "an evaluation needs samples that training does not see",
                            "name them, as in 'data: {tokens: FILE, validation: FILE}' or 'data: {tokens: FILE, held_out: 5 %}'");
}

Scenario read_scenario(const NodePtr& root, const std::string& name) {
  Scenario scenario;
  scenario.file = name;
  scenario.name = std::filesystem::path(name).stem().string();
  scenario.document = root;
  ReadLog log;
  MapReader reader(*root, log);
  log.throw_if_errors();  // not even a map
  check_heading(reader);
  std::optional<Cluster> cluster = read_cluster_part(reader);
  scenario.workload = read_workload_part(reader);
  const std::optional<int> global_batch = read_batch(reader, scenario);
  read_choices(reader, scenario);
  read_parallel(reader, scenario);
  scenario.expert_load = read_expert_load(reader, scenario.degrees);
  const bool degrees_known = !log.has_errors();
  if (cluster && degrees_known) fit_to_devices(reader, *cluster, scenario.degrees);
  if (global_batch && degrees_known) divide_batch(reader, *global_batch, scenario);
  if (cluster && degrees_known) check_sizes(reader, scenario);
  scenario.schedule = read_schedule(reader, scenario.degrees);
  scenario.partition = read_partition(reader);
  scenario.optimizer = read_optimizer(reader, scenario.workload.layers_file.empty() ? "adam" : "none", scenario.precision);
  scenario.offload = read_offload(reader, scenario);
  scenario.training = read_training(reader);
  if (cluster && degrees_known && !log.has_errors())
    scenario.placement = read_placement(reader, *cluster, scenario.degrees);
  else
    reader.find("placement");
  scenario.framework = read_framework(reader, scenario.workload, cluster && cluster->given);
  if (auto profile = read_profile_part(reader)) use_profile(scenario, std::move(profile));
  check_shard(reader, scenario);
  check_chunk(reader, scenario);
  read_transfer_rules(reader, cluster && cluster->given, scenario);
  read_usable(reader, cluster, scenario);
  scenario.data = read_data(reader);
  check_evaluation(reader, scenario);
  scenario.run = read_run(reader, cluster);
  reader.find("kind");
  suggest_names(reader, kOtherBatchNames, "batch.");
  suggest_names(reader, other_degree_names(), "parallel.");
  reader.finish();
  log.throw_if_errors();
  scenario.cluster = std::move(*cluster);
  scenario.resolved = log.resolved_values();
  return scenario;
}

// Entries of `map` replace those of the scenario's map of that name.
void put_entries(Node& root, const std::string& name, const Node& map) {
  const auto slot = std::find_if(root.entries.begin(), root.entries.end(), [&](const auto& entry) { return entry.key == name; });
  if (slot == root.entries.end() || slot->value->kind != NodeKind::Map) {
    auto whole = std::make_shared<Node>(map);
    if (slot != root.entries.end()) root.entries.erase(slot);
    root.entries.push_back({name, map.line, map.column, whole});
    return;
  }
  Node& into = *slot->value;
  for (const Node::Entry& entry : map.entries) {
    std::erase_if(into.entries, [&](const Node::Entry& old) { return old.key == entry.key; });
    into.entries.push_back(entry);
  }
}

// The scenario keys that a plan file decides. Faults are not reported here: the readers of both files do that.
void apply_plan_keys(Node& root, const Node& plan) {
  if (root.kind != NodeKind::Map || plan.kind != NodeKind::Map) return;
  for (const char* name : {"batch", "parallel"})
    if (const Node* map = plan.find(name); map != nullptr && map->kind == NodeKind::Map) {
      put_entries(root, name, *map);
      if (name == std::string_view("batch") && map->find("microbatches") != nullptr) drop_other_count(root, "microbatches");
    }
  const Node* devices = plan.find("devices");
  if (devices == nullptr || devices->kind != NodeKind::Sequence) return;
  auto placement = std::make_shared<Node>(*devices);
  placement->path = "placement";
  for (std::size_t i = 0; i < placement->items.size(); ++i) {
    placement->items[i] = std::make_shared<Node>(*placement->items[i]);
    placement->items[i]->path = fmt::format("placement[{}]", i);
  }
  std::erase_if(root.entries, [](const Node::Entry& old) { return old.key == "placement"; });
  root.entries.push_back({"placement", devices->line, devices->column, placement});
}

// Degrees and batch that overrides left open (`parallel={}`, `parallel.data=auto`) are the plan's.
void fill_open_keys(Node& root, const Node& plan) {
  if (root.kind != NodeKind::Map || plan.kind != NodeKind::Map) return;
  for (const char* name : {"batch", "parallel"}) {
    const Node *map = plan.find(name), *now = root.find(name);
    if (map == nullptr || now == nullptr || map->kind != NodeKind::Map || now->kind != NodeKind::Map) continue;
    Node open = *map;
    std::erase_if(open.entries, [&](const Node::Entry& entry) {
      if (entry.key == "microbatches" && now->find("global") != nullptr) return true;
      const Node* stated = now->find(entry.key);
      return stated != nullptr && (stated->kind != NodeKind::Scalar || stated->text != "auto");
    });
    put_entries(root, name, open);
  }
}

// The written node nearest to a path: "schedule.group" -> schedule.group, schedule, or the document; "optimizer.groups[1].match".
const Node& nearest_node(const Node& root, const std::string& path) {
  const Node* node = &root;
  std::size_t begin = 0;
  while (begin < path.size() && node->kind == NodeKind::Map) {
    const std::size_t end = std::min(path.find('.', begin), path.size()), bracket = std::min(path.find('[', begin), end);
    const Node* next = node->find(path.substr(begin, bracket - begin));
    if (next == nullptr) break;
    node = next;
    begin = end + 1;
    if (bracket == end || node->kind != NodeKind::Sequence) continue;
    const std::size_t item = std::stoul(path.substr(bracket + 1));
    if (item >= node->items.size()) break;
    node = node->items[item].get();
  }
  return *node;
}

}  // namespace

namespace {

// The file itself, else the shipped one of that name: examples/gpt.yaml, or as documents write it, scenarios/examples/gpt.yaml.
std::string file_of_scenario(const std::string& path) {
  constexpr std::string_view kInSources = "scenarios/";
  if (const auto found = find_file(path, "")) return *found;
  if (!path.starts_with(kInSources)) return path;
  return find_file(path.substr(kInSources.size()), data_directory()).value_or(path);
}

}  // namespace

Scenario resolve_document(const NodePtr& root, const std::string& name, const std::vector<std::string>& overrides,
                          const std::string& plan_file) {
  if (plan_file.empty()) {
    apply_overrides(*root, overrides);
    return read_scenario(root, name);
  }
  const NodePtr plan = load_document(plan_file);
  apply_plan_keys(*root, *plan);
  apply_overrides(*root, overrides);
  fill_open_keys(*root, *plan);
  return read_scenario(root, name);
}

Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides, const std::string& plan_file) {
  return resolve_document(load_document(file_of_scenario(path)), path, overrides, plan_file);
}

Scenario parse_scenario(const std::string& text, const std::string& name, const std::string& directory,
                        const std::vector<std::string>& overrides) {
  return resolve_document(parse_document(text, name, directory), name, overrides);
}

Bytes memory_limit(const Scenario& scenario, const DeviceType& type) {
  const double share = scenario.usable.value_or(type.usable);
  return Bytes(static_cast<std::int64_t>(std::floor(static_cast<double>(type.memory.base()) * share)));
}

void use_profile(Scenario& scenario, std::shared_ptr<const Profile> profile) {
  scenario.profile = std::move(profile);
  static_cast<Execution&>(scenario.framework) = executors_choices();
}

InputError fault_at(const Scenario& scenario, const std::string& path, const std::string& message, const std::string& help,
                    std::string_view code) {
  if (!scenario.document) return InputError(message, help, code);
  return InputError(std::vector<Diagnostic>{diagnostic_at(nearest_node(*scenario.document, path), message, help, code)});
}

InputError placed(const InputError& fault, const Scenario& scenario, const std::string& path) {
  const std::vector<Diagnostic>& diagnostics = fault.diagnostics();
  if (diagnostics.size() != 1 || !diagnostics.front().file.empty()) return fault;
  return fault_at(scenario, path, diagnostics.front().message, diagnostics.front().help, diagnostics.front().code);
}

Workload make_workload(const Scenario& scenario, const Degrees& degrees) {
  try {
    return make_workload(scenario.workload, {.degrees = degrees,
                                             .precision = scenario.precision,
                                             .exchange = scenario.context_exchange,
                                             .expert_load = scenario.expert_load});
  } catch (const InputError& error) {
    throw placed(error, scenario, "workload");
  }
}

bool is_open(const Scenario& scenario, const std::string& path) {
  if (!scenario.document) return true;
  const Node& node = nearest_node(*scenario.document, path);
  if (node.path != path || (node.kind == NodeKind::Scalar && node.text == "auto")) return true;
  return path == "schedule" && node.kind == NodeKind::Sequence;  // a choice among some
}

std::string origin_of(const Scenario& scenario, const std::string& path) {
  for (auto value = scenario.resolved.rbegin(); value != scenario.resolved.rend(); ++value)
    if (value->path == path) return value->origin;
  if (!scenario.document) return "default";
  const Node& node = nearest_node(*scenario.document, path);
  return node.path == path ? origin_of(node) : "default";
}

}  // namespace panpipe
