#include "jobs/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/scenario/scenario_keys.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/job.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/trainer_data.hpp"

namespace panpipe::jobs {
namespace {

// torchtitan places the stages of an order from a file in a loop; the script for torch.distributed.pipelining places its own.
std::vector<std::string_view> torch_families(bool files_in_loops) {
  std::vector<std::string_view> families;
  for (const TorchSchedule& one : torch_schedules())
    if (!files_in_loops || one.loop || !one.name.empty()) families.push_back(one.family);
  return families;
}

bool is_pure(Precision precision) { return precision == Precision::Bf16Pure || precision == Precision::Fp16Pure; }

// States a value that holds without the key as well, in any trainer.
bool is_default(const Key& key, const std::string& path, const std::string& text, const Scenario& scenario) {
  const bool format = path == "optimizer.states" || path == "optimizer.master";
  if (format && text == "fp32" && !is_pure(scenario.precision)) return true;  // of 4 bytes for 2-byte weights
  return text == "auto" || text == key.fallback;
}

void report_key(const Key& key, InExports around, const std::string& path, const Node& node, const Scenario& scenario,
                ExportedJob& job) {
  const std::string text = flow_text(node);
  const bool stated = std::find(job.stated.begin(), job.stated.end(), path) != job.stated.end();
  if (key.exports.value_or(around) == InExports::Reported && !stated && !is_default(key, path, text, scenario))
    job.cannot.push_back(fmt::format("{}: {}", path, text));
}

// Everything else that the scenario states, by the declared keys, so that a new key is reported too.
void report_other_keys(const Scenario& scenario, ExportedJob& job) {
  const Key& root = scenario_keys();
  for (const std::string& path : job.stated) PANPIPE_CHECK(root.at(path) != nullptr, path + " is no key of a scenario");
  if (!scenario.document) return;
  for (const Node::Entry& entry : scenario.document->entries) {
    const Key* key = root.find(entry.key);
    PANPIPE_CHECK(key != nullptr, entry.key + " was read, but is no key of a scenario");
    const InExports exports = key->exports.value_or(*root.exports);
    if (entry.value->kind != NodeKind::Map) {
      const Key* name = key->find("name");  // which a single value abbreviates
      report_key(name != nullptr ? *name : *key, exports, entry.key, *entry.value, scenario, job);
      continue;
    }
    for (const Node::Entry& inner : entry.value->entries)
      if (const Key* declared = key->find(inner.key))
        report_key(*declared, exports, entry.key + "." + inner.key, *inner.value, scenario, job);
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
       .schedules = torch_families(true),
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
       .schedules = torch_families(false),
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
  ExportedJob job = trainer.write(request);
  if (request.file.empty() && !job.schedule_csv.empty())
    throw InputError(
        fmt::format("{} has no name for the order of {}: it goes into a file beside", trainer.title, plan.schedule.name),
        "name the file that the text is written into");
  return job;
}

std::string order_file_of(const std::string& file) {
  const std::size_t slash = file.rfind('/'), dot = file.rfind('.');
  const bool suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  return (suffix ? file.substr(0, dot) : file) + ".csv";
}

void report_the_rest(const ExportRequest& request, ExportedJob& job) {
  report_other_keys(request.experiment.scenario, job);
  if (!job.places_ranks) report_devices(request.plan, job);
  for (std::string& phrase : job.cannot) phrase = without_controls(std::move(phrase));
  for (std::string& sentence : job.besides) sentence = without_controls(std::move(sentence));
}

}  // namespace panpipe::jobs
