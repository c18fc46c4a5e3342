#include "jobs/edit/base_job.hpp"
#include "jobs/edit/document_edits.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/nanotron/import.hpp"

namespace panpipe::jobs {
namespace {

std::vector<Setting> nanotron_settings(const ExportRequest& request) {
  const Plan& plan = request.plan;
  const auto number = [](int value) { return std::to_string(value); };
  ExportedJob ignored;
  std::vector<Setting> settings = {
      {"parallelism.dp", number(plan.data)},
      {"parallelism.pp", number(plan.pipeline)},
      {"parallelism.tp", number(plan.tensor)},
      {"parallelism.context_parallel_size", number(plan.context)},
      {"parallelism.expert_parallel_size", number(plan.expert)},
      {"parallelism.recompute_layer", recompute_of(plan, ignored) == Recompute::Full ? "true" : "false"},
      {"tokens.micro_batch_size", number(plan.micro)},
      {"tokens.batch_accumulation_per_replica", number(plan.schedule.microbatches)},
      {"optimizer.zero_stage", number(plan.replicas() > 1 ? plan.zero : 0)}};
  if (plan.tensor > 1) settings.emplace_back("parallelism.tp_mode", plan.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
  if (plan.pipeline > 1) settings.emplace_back("parallelism.pp_engine", known_order(plan.schedule, {"1f1b"}) ? "1f1b" : "afab");
  return settings;
}

}  // namespace

std::vector<EditAttempt> edit_nanotron(const EditRequest& request) {
  const NodePtr root = parse_document(request.base.text, request.base.name, ".");
  EditAttempt attempt{TextEdits(request.base.text), {}};
  attempt.edits =
      document_edits(request.base.text, *root, DocumentForm::Yaml,
                     changed_settings(nanotron_settings(request.before), nanotron_settings(request.after)), attempt.by_hand);
  return {attempt};
}

}  // namespace panpipe::jobs
