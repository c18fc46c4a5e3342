#include "validation/runs/run_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace panpipe::validation {
namespace {

constexpr double kApart = 1.05;  // pairs that differ by less have no order worth asking for

struct Pairs {
  long long all = 0, right = 0;
  double share() const { return all > 0 ? static_cast<double>(right) / static_cast<double>(all) : 1; }
};

void count_pairs(const std::vector<const RunPrediction*>& runs, Pairs& pairs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      const double a = *runs[i]->row.step_s, b = *runs[j]->row.step_s;
      if (std::max(a, b) <= kApart * std::min(a, b)) continue;
      ++pairs.all;
      pairs.right += (a < b) == (runs[i]->predicted_s < runs[j]->predicted_s) && runs[i]->predicted_s != runs[j]->predicted_s;
    }
  }
}

ErrorSummary error_summary(const std::vector<const RunPrediction*>& runs) {
  ErrorSummary summary;
  std::vector<double> errors, inside;
  std::vector<const RunPrediction*> measured;
  for (const RunPrediction* run : runs) {
    summary.skipped += !run->predicted();
    const std::optional<double> error = run->error();
    if (!error) continue;
    measured.push_back(run);
    errors.push_back(*error);
    if (const std::optional<bool> holds = run->inside()) inside.push_back(*holds ? 1 : 0);
  }
  static_cast<ErrorSizes&>(summary) = error_sizes(errors);
  if (!measured.empty()) summary.worst_id = measured[summary.worst_at]->row.id;
  summary.judged = static_cast<int>(inside.size());
  summary.inside = mean_of(inside);
  Pairs pairs;
  count_pairs(measured, pairs);
  summary.pairs = pairs.all;
  summary.pairs_ordered = pairs.share();
  return summary;
}

ChoiceSummary choice_summary(const std::vector<const RunPrediction*>& runs) {
  ChoiceSummary summary;
  Pairs pairs;
  std::vector<double> regrets;
  for (const std::vector<const RunPrediction*>& members : choice_groups(runs)) {
    if (members.size() < 2) continue;
    ++summary.groups;
    count_pairs(members, pairs);
    const auto chosen = std::min_element(members.begin(), members.end(),
                                         [](const auto* a, const auto* b) { return a->predicted_s < b->predicted_s; });
    const auto fastest = std::min_element(members.begin(), members.end(),
                                          [](const auto* a, const auto* b) { return *a->row.step_s < *b->row.step_s; });
    regrets.push_back(*(*chosen)->row.step_s / *(*fastest)->row.step_s - 1);
    summary.best_found += regrets.back() == 0;
    summary.worst_regret = std::max(summary.worst_regret, regrets.back());
  }
  summary.pairs = pairs.all;
  summary.pairs_ordered = pairs.share();
  summary.mean_regret = mean_of(regrets);
  return summary;
}

MemorySummary memory_summary(const std::vector<const RunPrediction*>& runs) {
  MemorySummary summary;
  std::vector<double> errors;
  std::vector<const RunPrediction*> measured;
  for (const RunPrediction* run : runs)
    if (const std::optional<double> error = run->peak_error()) {
      errors.push_back(*error);
      measured.push_back(run);
    }
  static_cast<ErrorSizes&>(summary) = error_sizes(errors);
  if (!measured.empty()) summary.worst_id = measured[summary.worst_at]->row.id;
  return summary;
}

}  // namespace

std::vector<std::vector<const RunPrediction*>> choice_groups(const std::vector<const RunPrediction*>& runs) {
  std::map<std::tuple<std::string, std::string, std::string, std::vector<int>>, std::vector<const RunPrediction*>> groups;
  for (const RunPrediction* run : runs) {
    if (!run->error() || !run->row.layers) continue;
    const RunRow& r = run->row;
    std::vector<int> sizes;
    for (const auto& value : {r.layers, r.hidden, r.heads, r.ffn, r.seq, r.vocab, r.gpus, r.global_batch})
      sizes.push_back(value.value_or(0));
    groups[{r.source, r.framework, r.gpu, sizes}].push_back(run);
  }
  std::vector<std::vector<const RunPrediction*>> result;
  for (auto& [key, members] : groups) result.push_back(std::move(members));
  return result;
}

Summary summarize(const std::vector<const RunPrediction*>& runs) {
  return {error_summary(runs), choice_summary(runs), memory_summary(runs)};
}

Summary summarize(const std::vector<RunPrediction>& runs) {
  std::vector<const RunPrediction*> all;
  for (const RunPrediction& run : runs) all.push_back(&run);
  return summarize(all);
}

std::string parallelism_of(const RunRow& row) {
  std::string name;
  const auto add = [&](const std::optional<int>& degree, const char* word) {
    if (degree.value_or(1) > 1) name += (name.empty() ? "" : " + ") + std::string(word);
  };
  add(row.tp, "tensor");
  add(row.pp, "pipeline");
  add(row.dp, "data");
  add(row.context_size, "context");
  return name.empty() ? "one GPU" : name;
}

std::string model_size_of(const RunPrediction& run) {
  if (!run.predicted()) return "not known";
  if (run.parameters < 1e9) return "under 1 B";
  if (run.parameters < 1e10) return "1 to 10 B";
  return run.parameters < 1e11 ? "10 to 100 B" : "over 100 B";
}

Groups summarize_groups(const std::vector<RunPrediction>& runs) {
  std::map<std::string, std::map<std::string, std::vector<const RunPrediction*>>> members;
  const auto named = [](const std::string& name) { return name.empty() ? std::string("not stated") : name; };
  for (const RunPrediction& run : runs) {
    members["source"][named(run.row.source)].push_back(&run);
    members["gpu"][named(run.row.gpu)].push_back(&run);
    members["framework"][named(run.row.framework)].push_back(&run);
    members["parallelism"][parallelism_of(run.row)].push_back(&run);
    members["class"][run.predicted() ? std::string(name_of(run.traits.of)) : "not known"].push_back(&run);
    members["model_size"][model_size_of(run)].push_back(&run);
  }
  Groups groups;
  for (const auto& [kind, names] : members)
    for (const auto& [name, group] : names) groups[kind][name] = summarize(group);
  return groups;
}

}  // namespace panpipe::validation
