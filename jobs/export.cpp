#include "jobs/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {
namespace {

// What torch.distributed.pipelining runs by name or from a file: one chain, whole sequences.
const std::vector<std::string_view> kTorchSchedules = {"gpipe",
                                                       "1f1b",
                                                       "kfkb",
                                                       "interleaved-1f1b",
                                                       "looped-bfs",
                                                       "pfeife",
                                                       "1f1b-v",
                                                       "hanayo",
                                                       "zb-h1",
                                                       "zb-h2",
                                                       "zb-auto",
                                                       "interleaved-zero-bubble",
                                                       "group-interleaved",
                                                       "gis-h",
                                                       "zb-v",
                                                       "zb-v-auto",
                                                       "v-half",
                                                       "v-min",
                                                       "v-auto",
                                                       "dualpipe-v",
                                                       "stp"};
// torchtitan places the stages of a file in a loop.
const std::vector<std::string_view> kTorchtitanSchedules = {
    "gpipe", "1f1b",      "kfkb",    "interleaved-1f1b",        "looped-bfs",        "pfeife",
    "zb-h1", "zb-h2",     "zb-auto", "interleaved-zero-bubble", "group-interleaved", "gis-h",
    "zb-v",  "dualpipe-v"};

// Keys that exporters read, or that are about the prediction rather than the job. Of maps whose keys stand here one by one, a key
// that is new is told.
constexpr std::string_view kKnownKeys[] = {"panpipe",
                                           "cluster",
                                           "batch",
                                           "precision",
                                           "parallel.pipeline",
                                           "parallel.tensor",
                                           "parallel.data",
                                           "parallel.virtual_stages",
                                           "parallel.zero",
                                           "parallel.sequence_parallel",
                                           "schedule",
                                           "partition",
                                           "placement",
                                           "recompute",
                                           "training",
                                           "data",
                                           "run",
                                           "seed",
                                           "profile",
                                           "usable",
                                           "memory_model",
                                           "transfers",
                                           "collectives_run_on",
                                           "optimizer.name",
                                           "optimizer.learning_rate",
                                           "optimizer.betas",
                                           "optimizer.epsilon",
                                           "optimizer.weight_decay",
                                           "optimizer.momentum",
                                           "optimizer.no_decay",
                                           "optimizer.groups"};

// Of the maps `workload` and `framework`, what changes the job and has words in some trainers or none. The rest is the model,
// which every exporter reads, and how a framework runs it.
constexpr std::string_view kToldKeys[] = {"workload.lora", "workload.frozen", "framework.expert_dispatch",
                                          "framework.fp8_scaling", "framework.fp8_parameters"};

bool is_told(const std::string& path) {
  return std::find(std::begin(kToldKeys), std::end(kToldKeys), path) != std::end(kToldKeys);
}

bool is_pure(Precision precision) { return precision == Precision::Bf16Pure || precision == Precision::Fp16Pure; }

std::string flow_of(const Node& node) {
  if (node.kind == NodeKind::Scalar) return node.text;
  std::vector<std::string> parts;
  for (const auto& item : node.items) parts.push_back(flow_of(*item));
  for (const Node::Entry& entry : node.entries) parts.push_back(entry.key + ": " + flow_of(*entry.value));
  const bool list = node.kind == NodeKind::Sequence;
  return fmt::format("{}{}{}", list ? "[" : "{", fmt::join(parts, ", "), list ? "]" : "}");
}

// Whatever else the scenario states: so that a key which is new here is told too.
void tell_of_other_keys(const Scenario& scenario, ExportedJob& job) {
  if (!scenario.document) return;
  const auto is_known = [&](const std::string& path) {
    return std::find(std::begin(kKnownKeys), std::end(kKnownKeys), path) != std::end(kKnownKeys) ||
           std::find(job.said.begin(), job.said.end(), path) != job.said.end();
  };
  // Degrees of 1 and formats of 4 bytes beside 2-byte weights change nothing.
  const auto is_default = [&](const std::string& key, const std::string& path, const std::string& text) {
    if (key == "framework") return text == "rows" || text == "delayed" || text == "false";
    if (key == "optimizer") return text == "fp32" && !is_pure(scenario.precision);
    return path != "experts.capacity" && path != "experts.imbalance" && (text == "auto" || text == "1" || text == "0");
  };
  for (const Node::Entry& entry : scenario.document->entries) {
    const bool mostly_known = entry.key == "workload" || entry.key == "framework";
    const bool name = entry.value->kind != NodeKind::Map && (mostly_known || entry.key == "optimizer");
    if (is_known(entry.key) || name) continue;
    if (entry.value->kind != NodeKind::Map) {
      job.cannot.push_back(fmt::format("{}: {}", entry.key, flow_of(*entry.value)));
      continue;
    }
    for (const Node::Entry& inner : entry.value->entries) {
      const std::string path = entry.key + "." + inner.key;
      const std::string text = flow_of(*inner.value);
      if (is_known(path) || (mostly_known && !is_told(path))) continue;
      if (!is_default(entry.key, path, text)) job.cannot.push_back(fmt::format("{}: {}", path, text));
    }
  }
}

std::string titles_of(const std::vector<std::string_view>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

}  // namespace

const std::vector<Trainer>& trainers() {
  static const std::vector<Trainer> table = {
      {.name = "megatron",
       .title = "Megatron-LM",
       .schedules = {"1f1b", "interleaved-1f1b"},
       .sequence_with_experts = true,
       .pipeline_next = true,
       .zero = {0, 1, 2, 3},
       .recompute = {Recompute::None, Recompute::Selective, Recompute::Full},
       .write = export_megatron},
      {.name = "torchtitan",
       .title = "torchtitan",
       .schedules = kTorchtitanSchedules,
       .any_order = true,
       .zero = {2, 3},  // and DDP where replicas are all there is
       .recompute = {Recompute::None, Recompute::Full},
       .write = export_torchtitan},
      {.name = "deepspeed",
       .title = "DeepSpeed",
       .schedules = {"1f1b"},
       .tensor = false,
       .zero = {0, 1},
       .recompute = {Recompute::None, Recompute::Full},
       .write = export_deepspeed},
      {.name = "torch",
       .title = "torch.distributed.pipelining",
       .schedules = kTorchSchedules,
       .whole_layers = false,
       .tensor = false,
       .any_order = true,
       .zero = {0, 1},
       .recompute = {Recompute::None, Recompute::Full},
       .write = export_torch},
  };
  return table;
}

const Trainer& trainer_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Trainer& trainer : trainers()) {
    if (trainer.name == name) return trainer;
    names.emplace_back(trainer.name);
  }
  throw InputError(fmt::format("there is no trainer '{}'{}", name, suggestion_or_list(name, names)));
}

ExportedJob export_job(const Trainer& trainer, const ExportRequest& request) {
  const Plan& plan = request.plan;
  if (!request.experiment.workload.graph)
    throw InputError(fmt::format("{}: measured layers are no model that {} could train", request.scenario, trainer.title),
                     "export a scenario with a model or a config.json");
  if (plan.tensor > 1 && !trainer.tensor)
    throw InputError(fmt::format("{}: {} has no tensor parallelism here, and the plan has tensor {}", request.scenario,
                                 trainer.title, plan.tensor),
                     fmt::format("panpipe plan --for {} plans without it", trainer.name));
  if (!trainer.tensor && context_ranks(plan) > 1)
    throw InputError(fmt::format("{}: {} has no context parallelism here, and the plan has context {}", request.scenario,
                                 trainer.title, context_ranks(plan)));
  if (plan.pipeline > 1 && !known_order(plan.schedule, trainer.schedules) && !trainer.any_order)
    throw InputError(fmt::format("{}: {} does not have the order of the schedule {}; it has {}", request.scenario, trainer.title,
                                 plan.schedule.name, titles_of(trainer.schedules)),
                     fmt::format("panpipe plan --for {} plans with those", trainer.name));
  return trainer.write(request);
}

std::string csv_beside(const std::string& file) {
  const std::size_t slash = file.rfind('/'), dot = file.rfind('.');
  const bool suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  return (suffix ? file.substr(0, dot) : file) + ".csv";
}

void tell_of_the_rest(const ExportRequest& request, ExportedJob& job) {
  tell_of_other_keys(request.experiment.scenario, job);
  if (!job.places_ranks) tell_of_devices(request.plan, job);
  for (std::string& phrase : job.cannot) phrase = without_controls(std::move(phrase));
  for (std::string& sentence : job.besides) sentence = without_controls(std::move(sentence));
}

}  // namespace panpipe::jobs
