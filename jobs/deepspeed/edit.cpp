#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "jobs/deepspeed/export.hpp"
#include "jobs/edit/base_job.hpp"
#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

std::vector<Setting> deepspeed_settings(const ExportRequest& request) {
  const Plan& plan = request.plan;
  std::vector<Setting> settings = deepspeed_batch(plan);
  settings.emplace_back("zero_optimization.stage", std::to_string(plan.replicas() > 1 ? plan.zero : 0));
  settings.emplace_back("pipeline.stages", std::to_string(plan.pipeline));
  ExportedJob ignored;
  const bool full = recompute_of(plan, ignored) == Recompute::Full;
  const int interval = full ? request.experiment.scenario.recompute_scope.chunk : 0;
  settings.emplace_back(fmt::format("{}.activation_checkpoint_interval", plan.pipeline > 1 ? "pipeline" : "_panpipe"),
                        std::to_string(interval));
  if (plan.pipeline > 1)
    settings.emplace_back("_panpipe.parts",
                          fmt::format("[{}]", fmt::join(deepspeed_parts(layers_of_stages(request, "DeepSpeed")), ", ")));
  return settings;
}

bool names_key(const Node& root, const Setting& setting) { return root.find(setting.first) != nullptr; }

}  // namespace

std::vector<EditAttempt> edit_deepspeed(const EditRequest& request) {
  const NodePtr root = parse_document(request.base.text, request.base.name, ".");
  const std::vector<Setting> batch = deepspeed_batch(request.after.plan);
  const auto stated = std::count_if(batch.begin(), batch.end(), [&](const Setting& one) { return names_key(*root, one); });
  std::vector<Setting> settings = changed_settings(deepspeed_settings(request.before), deepspeed_settings(request.after));
  // A number that the job leaves to DeepSpeed stays open where the others decide it.
  if (stated >= 2)
    std::erase_if(settings, [&](const Setting& one) {
      return std::any_of(batch.begin(), batch.end(), [&](const Setting& known) { return known.first == one.first; }) &&
             !names_key(*root, one);
    });
  return {document_attempt(request.base, *root, DocumentForm::Json, settings)};
}

}  // namespace panpipe::jobs
