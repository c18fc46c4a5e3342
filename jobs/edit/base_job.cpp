#include "jobs/edit/base_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "costmodel/workload/language_model.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

bool of_plan(const std::string& key) {
  for (const char* top : {"parallel.", "batch."})
    if (key.starts_with(top)) return true;
  return key == "schedule" || key == "partition" || key == "recompute" || key == "framework";
}

// A job as it is read: its scenario, and whether it states the model itself.
struct ReadJob {
  ImportedJob job;
  Scenario scenario;
  bool own_model = true;
};

// Stands for the scenario's model in a job that states none; its plan is made for the scenario's.
constexpr const char* kAnyModel = "{model: gpt, layers: 4, hidden: 64, heads: 4, vocabulary: 1024, sequence: 32}";

ReadJob read_job(const Importer& importer, const std::string& text, const BaseJob& base, int gpus) {
  JobOptions options = base.options;
  // An edit may put a number in place of a variable; a value that is stated for it then has nothing to state.
  const auto stands_in = [](const std::string& where, const std::string& name) { return where.find(name) != std::string::npos; };
  std::erase_if(options.script.defines,
                [&](const auto& define) { return stands_in(base.text, define.first) && !stands_in(text, define.first); });
  const bool own_model = options.model.empty() && !importer.model.starts_with(';');
  if (!own_model && options.model.empty()) options.model = "the scenario's model";
  ImportedJob job = importer.read(text, base.name, options);
  const auto open = [](const std::string& assumption) { return assumption.find("--gpus N") != std::string::npos; };
  if (!options.gpus && std::any_of(job.assumptions.begin(), job.assumptions.end(), open)) {
    options.gpus = gpus;
    job = importer.read(text, base.name, options);
  }
  if (!own_model) {
    std::erase_if(job.values, [](const ImportedValue& value) { return value.key.starts_with("workload"); });
    job.set("workload", kAnyModel, "the scenario");
  }
  Scenario scenario = parse_scenario(scenario_text(job), base.name + ", as it is read", ".");
  return {std::move(job), std::move(scenario), own_model};
}

// The scenario with the job's decisions.
Scenario with_decisions(const Scenario& scenario, const Scenario& job) {
  Scenario other = scenario;
  other.degrees = job.degrees;
  other.schedule = job.schedule;
  other.partition = job.partition;
  other.recompute = job.recompute;
  other.recompute_scope = job.recompute_scope;
  other.placement = std::nullopt;
  other.document = job.document;
  return other;
}

void check_model(const Scenario& ours, const ReadJob& base, const std::string& name) {
  if (!base.own_model) return;
  const auto model = language_model_of(ours.workload), other = language_model_of(base.scenario.workload);
  if (!model || !other) return;
  const ModelDimensions &a = model->dimensions, &b = other->dimensions;
  if (a.layers != b.layers || a.hidden != b.hidden || a.heads != b.heads)
    throw InputError(fmt::format("{}: the job trains a model of {} layers of width {}, and the scenario's has {} of width {}",
                                 name, b.layers, b.hidden, a.layers, a.hidden),
                     "export into the job that the scenario was imported from");
  if (a.sequence != b.sequence)
    throw InputError(fmt::format("{}: the job's sequences have {} tokens, and the scenario's {}", name, b.sequence, a.sequence));
}

void check_gpus(const Plan& plan, const Degrees& job, const std::string& name) {
  if (plan.device_count() != job.device_count())
    throw InputError(
        fmt::format("{}: the job runs on {} GPUs, and the plan on {}", name, job.device_count(), plan.device_count()),
        "an export changes what the plan decides, not the machine: state the machine's GPUs in the job first");
}

std::vector<std::pair<int, int>> units_of(const Plan& plan) {
  std::vector<std::pair<int, int>> units;
  for (const int s : plan.schedule.chains.front()) units.emplace_back(plan.stages[s].first_unit, plan.stages[s].end_unit);
  return units;
}

// The first decision in which a plan differs from the wanted one; empty: none.
std::string difference_of(const Plan& plan, const Plan& wanted, const Scenario& scenario, const Scenario& wanted_scenario,
                          bool cuts_count) {
  const auto differ = [](const char* what, int is, int should) {
    return is == should ? std::string() : fmt::format("{} {} instead of {}", what, is, should);
  };
  const bool shared = wanted.replicas() > 1;
  for (const std::string& one :
       {differ("pipeline", plan.pipeline, wanted.pipeline), differ("tensor", plan.tensor, wanted.tensor),
        differ("data", plan.data, wanted.data), differ("context", plan.context, wanted.context),
        differ("expert", plan.expert, wanted.expert), differ("micro batch", plan.micro, wanted.micro),
        differ("microbatches", plan.schedule.microbatches, wanted.schedule.microbatches),
        differ("ZeRO", shared ? plan.zero : 0, shared ? wanted.zero : 0),
        differ("shard group", plan.zero > 0 && shared ? plan.shard_group() : 0,
               wanted.zero > 0 && shared ? wanted.shard_group() : 0),
        differ("sequence parallelism", plan.tensor > 1 && plan.sequence_parallel, wanted.tensor > 1 && wanted.sequence_parallel),
        differ("stages", plan.schedule.stages, wanted.schedule.stages)})
    if (!one.empty()) return one;
  if (cuts_count && units_of(plan) != units_of(wanted)) return "other cuts";
  if (plan.schedule.order != wanted.schedule.order || plan.schedule.stage_to_rank != wanted.schedule.stage_to_rank)
    return "another order";
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    if (plan.stages[s].recompute != wanted.stages[s].recompute ||
        plan.stages[s].recompute_first != wanted.stages[s].recompute_first)
      return "another recompute";
  const RecomputeScope &a = scenario.recompute_scope, &b = wanted_scenario.recompute_scope;
  if (wanted.stages.front().recompute != Recompute::None && (a.first != b.first || a.chunk != b.chunk || a.every != b.every))
    return "another recompute";
  return "";
}

// Without the number of tokens: trainers pad the vocabulary to a multiple of the tensor degree, which the plan decides.
std::string without_vocabulary(std::string value) {
  constexpr std::string_view kKey = "vocab_size: ";
  const std::size_t at = value.find(kKey);
  if (at == std::string::npos) return value;
  const std::size_t from = at + kKey.size();
  return value.erase(from, std::min(value.find_first_not_of("0123456789", from), value.size()) - from);
}

// Everything that the plan does not decide, as the importer reads it.
std::multiset<std::string> kept_of(const ImportedJob& job) {
  std::multiset<std::string> kept(job.without_effect.begin(), job.without_effect.end());
  kept.insert(job.not_understood.begin(), job.not_understood.end());
  for (const ImportedValue& value : job.values)
    if (!of_plan(value.key)) kept.insert(value.key + ": " + without_vocabulary(value.value));
  return kept;
}

class BaseEditor {
 public:
  BaseEditor(const TrainerJobs& jobs, const ExportRequest& request, const BaseJob& base)
      : jobs_(jobs), importer_(jobs.importer), request_(request), base_(base) {}

  EditedJob edited() {
    const Plan& wanted = request_.plan;
    const ReadJob own = read(base_.text);
    check_model(request_.experiment.scenario, own, base_.name);
    const Experiment theirs(with_decisions(request_.experiment.scenario, own.scenario));
    check_gpus(wanted, theirs.scenario.degrees, base_.name);
    const Plan plan = theirs.plan("");
    const ExportRequest before{theirs, plan, base_.name, "", request_.file};
    std::string reason;
    for (EditAttempt& attempt : jobs_.edit({base_, own.job, before, request_})) {
      const std::string text = attempt.edits.result();
      std::string fault = fault_of(text, own, attempt);
      if (fault.empty()) {
        EditedJob job{text, attempt.edits.difference(base_.name)};
        if (!attempt.other_cuts.empty()) job.cannot.push_back(attempt.other_cuts);
        return job;
      }
      for (const std::string& hand : attempt.by_hand) fault += "; " + hand;
      if (reason.empty()) reason = fault;
    }
    throw InputError(fmt::format("{}: the file cannot be edited into the plan: {}", base_.name, reason),
                     "nothing was written; change these by hand, or export without --base");
  }

 private:
  ReadJob read(const std::string& text) const { return read_job(importer_, text, base_, request_.plan.device_count()); }

  // Why the text is not the base with the plan; empty if it is.
  std::string fault_of(const std::string& text, const ReadJob& own, const EditAttempt& attempt) const try {
    const ReadJob back = read(text);
    const Experiment experiment(with_decisions(request_.experiment.scenario, back.scenario));
    if (const std::string other = difference_of(experiment.plan(""), request_.plan, experiment.scenario,
                                                request_.experiment.scenario, attempt.other_cuts.empty());
        !other.empty())
      return "it would have " + other;
    const std::multiset<std::string> before = kept_of(own.job), after = kept_of(back.job);
    std::vector<std::string> changed;
    std::set_symmetric_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(changed));
    const std::vector<std::string>& decided = attempt.options;
    std::erase_if(changed, [&](const std::string& line) {
      return std::find(decided.begin(), decided.end(), line.substr(0, line.find(' '))) != decided.end();
    });
    return changed.empty() ? "" : "it would also change " + one_line(changed.front());
  } catch (const InputError& error) {
    return error.diagnostics().front().message;
  }

  const TrainerJobs& jobs_;
  const Importer& importer_;
  const ExportRequest& request_;
  const BaseJob& base_;
};

}  // namespace

EditAttempt document_attempt(const BaseJob& base, const Node& root, DocumentForm form, const std::vector<Setting>& settings) {
  EditAttempt attempt{TextEdits(base.text)};
  attempt.edits = document_edits(base.text, root, form, settings, attempt.by_hand);
  return attempt;
}

EditedJob edit_job(const std::string& trainer, const ExportRequest& request, const BaseJob& base) {
  return BaseEditor(editor_named(trainer), request, base).edited();
}

}  // namespace panpipe::jobs
