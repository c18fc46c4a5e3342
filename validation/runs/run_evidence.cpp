#include "validation/runs/run_evidence.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "validation/runs/run_statistics.hpp"

namespace panpipe::validation {
namespace {

constexpr double kInside = 0.8;

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

std::vector<double> rounded_representatives(std::vector<double> values) {
  for (double& value : values = representatives(std::move(values))) value = rounded(value);
  return values;
}

double off(const RunPrediction& run) { return std::log(*run.row.step_s / run.predicted_s); }

std::vector<ComparedRuns> groups_of(const std::vector<const RunPrediction*>& runs) {
  std::map<std::pair<std::string, Likeness>, std::vector<const RunPrediction*>> members;
  for (const RunPrediction* run : runs) members[{run->row.source, run->kind}].push_back(run);
  std::vector<ComparedRuns> groups;
  for (const auto& [key, of] : members) {
    std::vector<double> values;
    for (const RunPrediction* run : of) values.push_back(off(*run));
    const double worst =
        *std::max_element(values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    groups.push_back(
        {of.front()->row.source, of.front()->kind, static_cast<int>(of.size()), rounded_representatives(values), rounded(worst)});
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
  for (const auto& [source, values] : apart)
    result.push_back({source, static_cast<int>(values.size()), rounded_representatives(values)});
  return result;
}

// The factor at which the intervals from the other sources hold `kInside` of a source's runs: a quantile of how far off a run
// was in units of its interval.
double widening_of(const EvidenceTable& table) {
  std::map<std::string, int> counts;
  for (const ComparedRuns& group : table.runs) counts[group.source] += group.runs;
  std::vector<std::pair<double, double>> ratios;
  for (const ComparedRuns& group : table.runs) {
    const double width = std::log(table.interval(group.kind, group.source).high);
    if (width <= 0) continue;
    for (const double value : group.off)
      ratios.emplace_back(std::abs(value) / width,
                          group.runs * run_weight(counts.at(group.source)) / static_cast<double>(group.off.size()));
  }
  const double factor = rounded(weighted_quantile(std::move(ratios), kInside));
  return factor > 0 ? factor : 1;
}

}  // namespace

EvidenceTable make_evidence(const std::vector<RunPrediction>& runs) {
  std::vector<const RunPrediction*> compared;
  for (const RunPrediction& run : runs)
    if (run.error() && !run.row.source.empty()) compared.push_back(&run);
  EvidenceTable table;
  table.runs = groups_of(compared);
  table.plans = plans_of(compared);
  table.widening = widening_of(table);
  return table;
}

}  // namespace panpipe::validation
