#include "validation/runs/run_evidence.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "validation/runs/run_statistics.hpp"

namespace panpipe::validation {
namespace {

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

double off(const RunPrediction& run) { return std::log(*run.row.step_s / run.by_model_s); }

bool counts(const RunPrediction& run) { return run.error() && !run.row.source.empty() && run.row.fair != "no"; }

std::string family_of(const RunRow& row) {
  return row.family.empty() ? row.source.substr(0, row.source.find_first_of("_.-")) : row.family;
}

std::vector<ComparedRuns> groups_of(const std::vector<const RunPrediction*>& runs) {
  std::map<std::tuple<std::string, StepClass, std::string, std::string, std::string, std::string, std::string>,
           std::vector<const RunPrediction*>>
      members;
  for (const RunPrediction* run : runs) {
    const StepTraits& t = run->traits;
    members[{run->row.source, t.of, t.device, t.framework, t.precision, t.parallel, t.schedule}].push_back(run);
  }
  std::vector<ComparedRuns> groups;
  for (const auto& [key, of] : members) {
    ComparedRuns& group = groups.emplace_back();
    group.source = of.front()->row.source;
    group.traits = of.front()->traits;
    group.runs = static_cast<int>(of.size());
    double sum = 0;
    for (const RunPrediction* run : of) {
      const double error = *run->error();
      sum += std::abs(error);
      if (std::abs(error) > std::abs(group.worst_error)) group.worst_error = rounded(error);
    }
    group.mean_error = rounded(sum / group.runs);
  }
  return groups;
}

std::vector<ComparedPlans> plans_of(const std::vector<const RunPrediction*>& runs) {
  std::map<std::string, std::vector<double>> apart;
  for (const auto& plans : choice_groups(runs))
    for (std::size_t i = 0; i < plans.size(); ++i)
      for (std::size_t j = i + 1; j < plans.size(); ++j)
        apart[plans[i]->row.source].push_back(std::abs(off(*plans[i]) - off(*plans[j])));
  std::vector<ComparedPlans> result;
  for (const auto& [source, values] : apart) {
    ComparedPlans& plans = result.emplace_back(ComparedPlans{source, static_cast<int>(values.size()), representatives(values)});
    for (double& value : plans.apart) value = rounded(value);
  }
  return result;
}

void round_numbers(UncertaintyPrior& prior) {
  for (double& spread : prior.spread) spread = rounded(spread);
  prior.block_spread = rounded(prior.block_spread);
  for (Widening& from : prior.widening)
    for (double& factor : from.factor) factor = rounded(factor);
  for (std::vector<Weighted>* grid : {&prior.scale, &prior.scatter})
    for (Weighted& entry : *grid) entry.weight = rounded(entry.weight);
  for (MissingWeights& weights : prior.missing)
    for (double& weight : weights) weight = rounded(weight);
}

}  // namespace

std::vector<JudgedSource> judged_sources(const std::vector<RunPrediction>& runs) {
  std::map<std::string, JudgedSource> sources;
  for (const RunPrediction& run : runs) {
    if (!counts(run)) continue;
    JudgedSource& source = sources[run.row.source];
    source.source = run.row.source;
    source.family = family_of(run.row);
    JudgedStep& step = source.steps.emplace_back();
    static_cast<StepTraits&>(step) = run.traits;
    step.off = off(run);
    step.off_at_first_sight = run.row.first_sight_s ? std::log(*run.row.step_s / *run.row.first_sight_s) : step.off;
    step.gpus = run.row.gpus.value_or(1);
    step.predicted_s = run.by_model_s;
  }
  std::vector<JudgedSource> all;
  for (auto& [name, source] : sources) all.push_back(std::move(source));
  return all;
}

EvidenceTable make_evidence(const std::vector<RunPrediction>& runs, const UncertaintyPrior& prior) {
  std::vector<const RunPrediction*> compared;
  for (const RunPrediction& run : runs)
    if (counts(run)) compared.push_back(&run);
  EvidenceTable table;
  table.prior = prior;
  round_numbers(table.prior);
  table.runs = groups_of(compared);
  table.plans = plans_of(compared);
  return table;
}

}  // namespace panpipe::validation
