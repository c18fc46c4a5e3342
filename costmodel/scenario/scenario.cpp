#include "costmodel/scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "base/error.hpp"
#include "base/input/bound_key.hpp"
#include "base/input/source_text.hpp"
#include "base/text/characters.hpp"
#include "costmodel/cluster/cluster_keys.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/profile/load_profiles.hpp"
#include "costmodel/scenario/check_together.hpp"
#include "costmodel/scenario/document_edits.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "costmodel/scenario/resolve_document.hpp"
#include "costmodel/scenario/scenario_keys.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "schedule/limits.hpp"
#include "schedule/slice_exchange.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

const Choices<Precision>& precisions() {
  static const Choices<Precision> all = [] {
    Choices<Precision> found;
    for (int p = 0; p <= static_cast<int>(Precision::Mxfp4); ++p)
      found.emplace_back(name_of(static_cast<Precision>(p)), static_cast<Precision>(p));
    return found;
  }();
  return all;
}

// The keys of a scenario, in the order of their listing. The bound ones are read by their rows alone.
const std::vector<BoundKey<Scenario>>& scenario_rows() {
  const auto structured = [](Key key) { return BoundKey<Scenario>{std::move(key)}; };
  static const std::vector<BoundKey<Scenario>> rows = {
      structured(declare("panpipe", "the format's number, 1", form::whole(1), kRequired, ActsOn::Nothing, InExports::Apart)),
      structured(declare("description", "a line for people", form::text(), ActsOn::Nothing, InExports::Apart)),
      structured(cluster_key()),
      structured(workload_key()),
      structured(batch_key()),
      bound(&Scenario::precision, precisions(), "precision",
            "`bf16` and `fp16`: weights and activations in 2 bytes with masters in fp32; the `-pure` kinds have no masters; "
            "`fp8`, `mxfp8`: products of transformer blocks in 8 bits, `nvfp4`, `mxfp4`: in 4 bits, everything else as bf16; "
            "only in predictions",
            Page{"models/recipes.md"}, InExports::Stated),
      structured(recompute_key()),
      bound(&Scenario::memory_model, {{"full", MemoryModelKind::Full}, {"pfeife", MemoryModelKind::Pfeife}}, "memory_model",
            "`pfeife` counts memory like that planner", InExports::Apart),
      bound(&Scenario::tied_embedding, {{"copy", TiedEmbedding::Copy}, {"one-rank", TiedEmbedding::OneRank}}, "tied_embedding",
            "the embedding is copied to the last stage and all-reduced, or the head is computed on its rank"),
      bound(&Scenario::overlap_gradients, "overlap_gradients",
            "data-parallel reduction in buckets during the backward that makes the gradients; `false`: after the rank's last "
            "pass (under ZeRO 2 and 3 always during the backward)",
            Otherwise{"as the framework does"}, Page{"models/lowering.md"}, Example{"true"}),
      bound(&Scenario::gradient_bucket, "gradient_bucket", "size of such a bucket", form::size(Sign::Positive),
            Otherwise{"the framework's"}, Page{"models/lowering.md"}, Example{"1 MiB"}),
      bound(&Scenario::seed, "seed", "weights, dropout, synthetic data", ActsOn::Training, InExports::Stated),
      structured(parallel_key()),
      structured(experts_key()),
      structured(schedule_key()),
      structured(partition_key()),
      structured(optimizer_key()),
      structured(offload_key()),
      structured(training_key()),
      structured(placement_key()),
      structured(trainer_key()),
      structured(framework_key()),
      structured(transfers_key()),
      bound(&Scenario::collectives_run_on, {{"awaited", false}, {"overlapped", true}}, "trailing_collectives",
            "`overlapped`: a pass may start during the last all-reduce of the pass before it", Page{"models/braids.md"},
            InExports::Apart),
      structured(declare("profile", "measured costs that take precedence over the formulas: a file, or a list of them",
                         form::file(), items(form::file()), Otherwise{"none"}, Page{"models/profile.md"}, InExports::Apart)),
      bound(&Scenario::usable, "usable", "share of a device's memory that a plan may fill", form::share(),
            Otherwise{"the cluster's, else each device's own"}, Page{"models/memory.md"}, Example{"50 %"}, InExports::Apart),
      structured(data_key()),
      structured(rollout_key()),
      structured(run_key()),
      structured(evidence_key()),
      structured(declare("kind", "the kind of the file", Words{"scenario"}, ActsOn::Nothing, InExports::Apart)),
  };
  return rows;
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
  Cluster cluster = read_or_log(reader.log(), [&] { return read_cluster(*node, reader.log()); });
  return cluster.size() > 0 ? std::optional(std::move(cluster)) : std::nullopt;  // else it has faults
}

WorkloadRequest read_workload_part(MapReader& reader) {
  const Node* node = reader.require("workload");
  if (node == nullptr) return {};
  return read_or_log(reader.log(), [&] { return read_workload(*node, reader.log()); });
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
  return read_or_log(reader.log(), [&] { return std::make_shared<const Profile>(load_profiles(paths)); });
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

void read_transfer_rules(MapReader& reader, bool given_cluster, Scenario& scenario) {
  // Given times and links are complete: the lowering then makes no rank wait for a send.
  const bool given = given_cluster || !scenario.workload.layers_file.empty();
  const bool shares = exchanges_attention(scenario.schedule.name, scenario.schedule.options);
  const std::string origin = given    ? "default"
                             : shares ? "the schedule's exchange"
                                      : fmt::format("framework {}", scenario.framework.name);
  scenario.transfers = read_transfers(reader, scenario.framework.blocking_transfers && !given && !shares, origin);
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

void check_measured_matrices(MapReader& reader, const Scenario& scenario) {
  const std::string& name = scenario.optimizer.name;
  if (scenario.workload.layers_file.empty() || (name != "muon" && name != "soap" && name != "shampoo")) return;
  reader.log().error(*reader.node().find("optimizer"), fmt::format("{} steps matrices, and measured layers name none", name),
                     "name adam or adamw, or a model");
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
  ReadLog log(&scenario_keys());
  MapReader reader(*root, log);
  log.throw_if_errors();  // not even a map
  check_heading(reader);
  std::optional<Cluster> cluster = read_cluster_part(reader);
  scenario.workload = read_workload_part(reader);
  const std::optional<int> global_batch = read_batch(reader, scenario);
  read_keys(reader, scenario_rows(), scenario);
  if (!scenario.usable && cluster) scenario.usable = cluster->usable;
  read_recompute(reader, scenario);
  read_parallel(reader, scenario);
  scenario.expert_load = read_expert_load(reader, scenario.degrees);
  const bool degrees_known = !log.has_errors();
  if (cluster && degrees_known) fit_to_devices(reader, *cluster, scenario.degrees);
  if (global_batch && degrees_known) divide_batch(reader, *global_batch, scenario);
  if (cluster && degrees_known) check_sizes(reader, scenario);
  if (cluster && degrees_known && !log.has_errors()) read_lengths(reader, scenario);
  scenario.schedule = read_schedule(reader, scenario.degrees);
  scenario.partition = read_partition(reader);
  scenario.optimizer = read_optimizer(reader, scenario.workload.layers_file.empty() ? "adam" : "none", scenario.precision);
  check_measured_matrices(reader, scenario);
  read_offload(reader, scenario);
  scenario.training = read_training(reader);
  if (cluster && degrees_known && !log.has_errors())
    scenario.placement = read_placement(reader, *cluster, scenario.degrees);
  else
    reader.find("placement");
  scenario.trainer = read_trainer(reader);
  scenario.framework = read_framework(reader, scenario.workload, scenario.trainer.get(), cluster && cluster->given);
  if (auto profile = read_profile_part(reader)) use_profile(scenario, std::move(profile));
  check_shard(reader, scenario);
  check_chunk(reader, scenario);
  read_transfer_rules(reader, cluster && cluster->given, scenario);
  scenario.data = read_data(reader);
  check_evaluation(reader, scenario);
  scenario.rollout = read_rollout(reader);
  scenario.run = read_run(reader, cluster);
  scenario.evidence = read_evidence(reader);
  reader.find("kind");
  suggest_names(reader, other_batch_names(), "batch.");
  suggest_names(reader, other_degree_names(), "parallel.");
  reader.finish();
  log.throw_if_errors();
  scenario.cluster = std::move(*cluster);
  scenario.resolved = log.resolved_values();
  return scenario;
}

// The file itself, else the shipped one of that name: examples/gpt.yaml, or as documents write it, scenarios/examples/gpt.yaml.
std::string file_of_scenario(const std::string& path) {
  constexpr std::string_view kInSources = "scenarios/";
  if (const auto found = find_file(path, "")) return *found;
  if (!path.starts_with(kInSources)) return path;
  return find_file(path.substr(kInSources.size()), data_directory()).value_or(path);
}

}  // namespace

const Key& scenario_keys() {
  static const Key root = {.keys = declared(scenario_rows()), .acts_on = ActsOn::Prediction, .exports = InExports::Reported};
  return root;
}

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

NodePtr scenario_document(const std::string& path) {
  const std::string file = file_of_scenario(path), text = read_text_file(file);
  // People give a launch script where its scenario is meant; what is wrong with it as YAML is no help to them.
  if (file.ends_with(".sh") || text.starts_with("#!"))
    throw InputError(
        fmt::format("{}: this is a script, not a scenario", file),
        fmt::format("panpipe plan {0} --for megatron plans the job that it starts, panpipe import megatron {0} makes "
                    "a scenario of it; of other trainers alike",
                    without_controls(file)),
        code::kSyntax);
  return parse_document(text, file, reference_folder(file));
}

Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides, const std::string& plan_file) {
  return resolve_document(scenario_document(path), path, overrides, plan_file);
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

static bool reads_images(const Workload& workload) {
  if (!workload.graph) return false;
  const std::vector<int>& inputs = workload.graph->inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](int t) { return workload.graph->tensors[t].name == "pixel_values"; });
}

Workload make_workload(const Scenario& scenario, const Degrees& degrees) {
  const bool apart = cuts_vocabulary(scenario.schedule.options);
  Features features;
  features.add(Feature::CutVocabulary, apart);
  features.add(Feature::Tensor, degrees.tensor > 1);
  features.add(Feature::Context, degrees.context > 1);
  check_together(scenario, features, Where::Predicted);
  try {
    Workload workload = make_workload(scenario.workload, {.degrees = degrees,
                                                          .precision = scenario.precision,
                                                          .exchange = scenario.context_exchange,
                                                          .expert_load = scenario.expert_load,
                                                          .vocabulary_apart = apart});
    features.add(Feature::ListedLengths, scenario.lengths.any());
    features.add(Feature::Images, reads_images(workload));
    check_together(scenario, features, Where::Predicted);
    if (scenario.lengths.any() && tokens_per_sample(workload) != scenario.lengths.shapes.front().tokens())
      throw fault_at(scenario, "batch.lengths", fmt::format("{} has samples of one size", workload.name),
                     "only built-in models and those by config.json that read tokens have microbatches of unequal length");
    return workload;
  } catch (const InputError& error) {
    throw placed(error, scenario, "workload");
  }
}

}  // namespace panpipe
