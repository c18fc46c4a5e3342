#include "jobs/export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/scenario_keys.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/import.hpp"
#include "jobs/job.hpp"
#include "jobs/trainer_data.hpp"
#include "jobs/trainer_jobs.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::jobs {
namespace {

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

// ZeRO and recompute are left to the exporters, which report what a trainer cannot express.
void check_runs(const Trainer& trainer, const ExportRequest& request) {
  const Plan& plan = request.plan;
  Degrees degrees = plan;
  degrees.context = context_ranks(plan);
  if (const Rolling rolling = rolling_of(plan.schedule); rolling != Rolling::None)
    throw InputError(fmt::format("{}: {} ends every step with a flush; it has no {}", request.scenario, trainer.full_title(),
                                 rolling == Rolling::Stale ? plan.schedule.name : "post_validation"),
                     fmt::format("panpipe plan --for {} plans without it; panpipe run trains it", trainer.name));
  const bool named = known_order(plan.schedule, trainer.schedules.value_or(std::vector<std::string>{})).has_value();
  for (const TrainerObstacle& obstacle : obstacles(trainer, {degrees, plan.schedule.name, most_recompute(plan)})) {
    if (obstacle.key == "schedule" && (named || trainer.orders_from_files)) continue;
    if (obstacle.key == "parallel.zero" || obstacle.key == "recompute") continue;
    throw InputError(
        fmt::format("{}: {} does not have {}; {}", request.scenario, trainer.full_title(), obstacle.what, obstacle.has),
        fmt::format("panpipe plan --for {} plans without it", trainer.name));
  }
}

// The owner's file with the plan.
ExportedJob job_in_base(const std::string& trainer, const ExportRequest& request) {
  const bool stream = request.base == "/dev/stdin";
  const BaseJob base{read_text_file(request.base), stream ? "standard input" : request.base,
                     stream ? request.base_options : with_folder_of(request.base, request.base_options)};
  EditedJob edited = edit_job(trainer, request, base);
  ExportedJob job;
  job.text = std::move(edited.text);
  job.difference = std::move(edited.difference);
  job.cannot = std::move(edited.cannot);
  return job;
}

}  // namespace

ExportedJob export_job(const std::string& trainer, const ExportRequest& request) {
  const TrainerJobs& jobs = request.base.empty() ? exporter_named(trainer) : editor_named(trainer);
  // In the scenario's release, if it is for this trainer.
  const Trainer* own = request.experiment.scenario.trainer.get();
  const Trainer runs = own != nullptr && own->name == jobs.name ? *own : load_trainer(std::string(jobs.name));
  if (!request.experiment.workload.graph)
    throw InputError(fmt::format("{}: measured layers are no model that {} could train", request.scenario, runs.title),
                     "export a scenario with a model or a config.json");
  check_runs(runs, request);
  ExportedJob job = request.base.empty() ? jobs.write(request) : job_in_base(trainer, request);
  job.trainer = runs.title;
  for (std::string& caution : cautions(runs, request.plan)) job.besides.push_back("caution: " + std::move(caution));
  if (request.file.empty() && !job.schedule_csv.empty())
    throw InputError(
        fmt::format("{} has no name for the order of {}: it goes into a file beside", runs.title, request.plan.schedule.name),
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
