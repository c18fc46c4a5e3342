// A training log as evidence, or the result of a run of Panpipe's executor: the measured step, compared with the prediction of
// the job that it is of.
#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "app/evidence/piece_readers.hpp"
#include "app/log_and_job.hpp"
#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "base/input/yaml_document.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/scenario/resolve_document.hpp"
#include "jobs/log/read_log.hpp"
#include "present/result/read_result.hpp"

namespace panpipe::app {
namespace {

struct Job {
  std::shared_ptr<const PlannedJob> planned;  // null: see the piece's left_out
  std::string of;                             // "the job that it states"
};

jobs::JobSize size_of(const PlannedJob& job) { return job_size(job.experiment.scenario, job.plan); }

// The file of the scenario's cluster; empty where it is written in place.
std::string cluster_file(const Scenario& scenario) {
  const Node* cluster = scenario.document ? scenario.document->find("cluster") : nullptr;
  const NodePtr map = cluster == nullptr ? nullptr : overridable_reference(std::make_shared<Node>(*cluster));
  const Node* file = map && map->kind == NodeKind::Map ? map->find("file") : nullptr;
  return file == nullptr ? "" : find_file(file->text, file->source->directory).value_or(file->text);
}

// The imported job names the cluster's file; what the scenario states over it belongs to the machine too.
Scenario on_machine(const std::string& text, const std::string& name, const Scenario& asked) {
  const NodePtr root = parse_document(text, name, ".");
  const Node* stated = asked.document->find("cluster");
  for (Node::Entry& entry : root->entries) {
    if (entry.key != "cluster") continue;
    entry.value = overridable_reference(entry.value);
    for (const Node::Entry& of_machine : stated->entries)
      if (of_machine.key != "file" && of_machine.key != "nodes" && entry.value->find(of_machine.key) == nullptr)
        entry.value->entries.push_back(of_machine);
  }
  return resolve_document(root, name);
}

// The job that the log states, on this scenario's machine: a log does not state its own.
std::string plan_stated_job(const jobs::TrainingLog& log, const Scenario& asked, Job& job) {
  jobs::JobOptions options;
  options.cluster = cluster_file(asked);
  try {
    const jobs::ImportedJob imported = jobs::import_stated_job(log, options);
    job.planned = std::make_shared<const PlannedJob>(on_machine(jobs::scenario_text(imported), log.file, asked));
  } catch (const InputError& error) {
    return "its job cannot be predicted on this machine: " +
           (error.diagnostics().empty() ? std::string(error.what()) : error.diagnostics().front().message);
  } catch (const NoAnswer& error) {
    return fmt::format("its job cannot be predicted: {}", error.what());
  }
  job.of = "the job that it states, on this machine";
  const long long samples = size_of(*job.planned).batch;
  if (log.run.samples == 0 || log.run.samples == samples) return "";
  return fmt::format("its steps have {} samples, and the job that it states has {}", log.run.samples, samples);
}

std::string contradiction(const jobs::TrainingLog& log, const PlannedJob& job) {
  std::string why = other_job(log, job.experiment.scenario, job.plan);
  return why.empty() ? other_trainer(log, job.experiment.scenario) : why;
}

std::string plan_own_job(const jobs::TrainingLog& log, StatedJob& stated, Job& job) {
  job.planned = stated.planned();
  if (job.planned == nullptr) return stated.why() + ", and the log states no job: name it, as in {log: FILE, job: SCENARIO}";
  job.of = log.run.job.text.empty() ? "the scenario in its file: the log states no job" : "the scenario in its file";
  return contradiction(log, *job.planned);
}

// What the result's plan has otherwise than the scenario; empty: nothing.
std::string contradiction(const present::ResultDocument& result, const PlannedJob& job) {
  const Degrees& ran = result.plan.degrees;
  const Plan& plan = job.plan;
  if (std::tie(ran.pipeline, ran.tensor, ran.data, ran.micro) != std::tie(plan.pipeline, plan.tensor, plan.data, plan.micro))
    return fmt::format("it ran pipeline {} x tensor {} x data {} with {} samples a microbatch, and this scenario does not",
                       ran.pipeline, ran.tensor, ran.data, ran.micro);
  const Scenario& scenario = job.experiment.scenario;
  if (scenario.profile || scenario.framework.name == "panpipe") return "";
  return fmt::format(
      "Panpipe's executor ran it, and this scenario is predicted as {}; 'framework: {{name: panpipe}}' in its file "
      "predicts it as that",
      scenario.framework.name);
}

// Adds the measured step, unless the piece is left out.
std::vector<GivenPiece> with_step(GivenPiece piece, const Job& job, double measured_s) {
  if (!piece.left_out.empty()) return {piece};
  const double off = add_step(piece, *job.planned, measured_s);
  piece.what += fmt::format(", {}, of {}", longer_text(off), job.of);
  return {piece};
}

Job named_job(const EvidenceRequest& request, const Scenario& asked) {
  Job job;
  if (request.job.empty()) return job;
  try {
    job.planned = std::make_shared<const PlannedJob>(load_scenario(request.job));
  } catch (const InputError& error) {
    throw named_by(error, asked, request.key + ".job");
  }
  job.of = "the job " + request.job;
  return job;
}

}  // namespace

std::vector<GivenPiece> result_pieces(const EvidenceRequest& request, StatedJob& stated) {
  const present::ResultDocument result = present::parse_result(read_text_file(request.file), request.file);
  if (!result.measured())
    throw InputError(fmt::format("{}: this is a prediction, and evidence was measured", request.file),
                     "'panpipe run SCENARIO -o DIR' writes a measured result");
  double measured_s = 0;
  for (const auto& [name, value] : result.metrics)
    if (name == "step_time_s") measured_s = value;
  if (!(measured_s > 0)) throw InputError(fmt::format("{}: it has no measured step", request.file));
  GivenPiece piece;
  piece.what = fmt::format("a measured step of {}", time_text(measured_s));
  Job job = named_job(request, stated.asked());
  if (job.planned == nullptr) job = {stated.planned(), "the scenario in its file"};
  if (job.planned == nullptr)
    piece.left_out = stated.why() + ": name what ran, as in {log: FILE, job: SCENARIO}";
  else
    piece.left_out = contradiction(result, *job.planned);
  return with_step(std::move(piece), job, measured_s);
}

std::vector<GivenPiece> log_pieces(const EvidenceRequest& request, StatedJob& stated) {
  Job job = named_job(request, stated.asked());
  const std::shared_ptr<const PlannedJob>& known = job.planned != nullptr ? job.planned : stated.planned();
  const jobs::TrainingLog log = jobs::read_training_log(request.file, 0, known != nullptr ? size_of(*known) : jobs::JobSize());
  GivenPiece piece;
  if (job.planned == nullptr)
    piece.left_out =
        log.run.job.text.empty() || cluster_file(stated.asked()).empty()  // a job cannot be put on a cluster written in place
            ? plan_own_job(log, stated, job)
            : plan_stated_job(log, stated.asked(), job);
  else
    piece.left_out = contradiction(log, *job.planned);
  const double measured_s = log.run.measured.median_s;
  const long long steps = log.run.measured.steps;
  piece.what = fmt::format("{} step{} of {}", steps, steps == 1 ? "" : "s", time_text(measured_s));
  return with_step(std::move(piece), job, measured_s);
}

}  // namespace panpipe::app
