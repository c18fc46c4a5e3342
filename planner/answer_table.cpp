// An answer for people: the plan found, how good it is, its stages, the runners-up, what was searched.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/base/quantity_text.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {
namespace {

std::string bold(const std::string& text, bool color) { return color ? "\x1b[1m" + text + "\x1b[0m" : text; }

const double* find_metric(const std::vector<std::pair<std::string, double>>& metrics, std::string_view key) {
  for (const auto& [name, value] : metrics)
    if (name == key) return &value;
  return nullptr;
}

// Times have a unit; what a method counts in the unit of its input has none.
std::string objective_text(const Answer& answer, double value) {
  return answer.objective.ends_with("_s") ? to_text(Duration(value)) : fmt::format("{:.6g}", value);
}

// How good the best is known to be.
std::string proof(const Answer& answer, double best) {
  if (answer.search.proved_optimal) return "proved: nothing that was searched is better";
  std::string text = answer.interrupted ? "interrupted, not proved" : "not proved";
  if (answer.search.lower_bound > 0 && best > 0)
    text += fmt::format("; at most {:.2f} % above the lower bound {}", 100 * (best / answer.search.lower_bound - 1),
                        objective_text(answer, answer.search.lower_bound));
  return text;
}

std::string stages_table(const Candidate& candidate) {
  std::size_t width = 0;
  std::vector<std::string> ranges;
  for (const PlannedStage& stage : candidate.stages) {
    ranges.push_back(stage.operators.empty()       ? std::string("-")
                     : stage.operators.size() == 1 ? stage.operators.front()
                                                   : stage.operators.front() + " ... " + stage.operators.back());
    width = std::max(width, ranges.back().size());
  }
  std::string out = fmt::format("  stage  units  {:<{}}  data  tensor  recomputed  devices\n", "from ... to", width);
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const PlannedStage& stage = candidate.stages[s];
    out += fmt::format("  {:>5}  {:>5}  {:<{}}  {:>4}  {:>6}  {:>10}  {}\n", s, stage.operators.size(), ranges[s], width,
                       stage.data, stage.tensor, stage.recompute.size(), fmt::join(stage.devices, ","));
  }
  return out;
}

std::string candidate_line(const Answer& answer, std::size_t index) {
  const Candidate& candidate = answer.candidates[index];
  const double* value = find_metric(candidate.metrics, answer.objective);
  const double* peak = find_metric(candidate.metrics, "peak_memory_bytes");
  const double* simulated = find_metric(candidate.simulated, "step_time_s");
  return fmt::format("  {:>2}  {:>10}  {:>10}  {:>10}  {}\n", index + 1, value ? objective_text(answer, *value) : "-",
                     simulated ? to_text(Duration(*simulated)) : "-",
                     peak ? to_text(Bytes(static_cast<std::int64_t>(*peak))) : "-", candidate.summary);
}

}  // namespace

std::string to_table(const Answer& answer, bool color) {
  std::string out;
  if (answer.candidates.empty()) {
    out = bold("no plan", color) + ": " + answer.reason + "\n";
  } else {
    const Candidate& best = answer.candidates.front();
    const double* value = find_metric(best.metrics, answer.objective);
    out = bold(fmt::format("{} {}", answer.objective.ends_with("_s") ? "step" : answer.objective,
                           objective_text(answer, value ? *value : 0)),
               color) +
          fmt::format("  ({})\n  {}\n", proof(answer, value ? *value : 0), best.summary) + stages_table(best);
    const std::string second = answer.objective.ends_with("_s") ? "estimated" : "objective";
    out += fmt::format("  {:>2}  {:>10}  {:>10}  {:>10}  plan\n", "", second, "simulated", "memory");
    for (std::size_t c = 0; c < answer.candidates.size(); ++c) out += candidate_line(answer, c);
  }
  out += fmt::format("  {} evaluated, {} excluded", answer.search.evaluated, answer.search.pruned);
  if (answer.search.lower_bound > 0) out += ", lower bound " + objective_text(answer, answer.search.lower_bound);
  out += "\n";
  for (const std::string& note : answer.notes) out += "  " + note + "\n";
  return out;
}

}  // namespace panpipe::planner
