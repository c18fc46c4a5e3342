// An answer for people: the plan found, how good it is, its stages, the runners-up, what was searched.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index_ranges.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/rate_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/run_cost/run_cost_text.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "planner/answer_text.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

const double* find_metric(const std::vector<std::pair<std::string, double>>& metrics, std::string_view key) {
  for (const auto& [name, value] : metrics)
    if (name == key) return &value;
  return nullptr;
}

bool is_time(const Answer& answer) { return answer.objective.ends_with("_s"); }

double value_of(const Candidate& candidate, const std::string& key) {
  const double* value = find_metric(candidate.metrics, key);
  return value ? *value : 0;
}

// How good the objective of the first candidate is known to be; of steps, on idle links: that is what is estimated.
std::string proof(const Answer& answer) {
  const double value = value_of(answer.candidates.front(), answer.objective);
  if (answer.search.proved_optimal)
    return is_time(answer) ? "proved on idle links: no searched plan is estimated faster" : "proved: no searched plan is better";
  if (!answer.search.proved_but_for.empty())
    return fmt::format("proved on idle links but for {}: no other searched plan is estimated faster",
                       fmt::join(answer.search.proved_but_for, ", "));
  std::string text = answer.interrupted ? "interrupted, not proved" : "not proved";
  if (answer.simulation_decides && answer.search.best > 0 && answer.search.best < value) {
    const auto least = std::find_if(answer.candidates.begin(), answer.candidates.end(), [&](const Candidate& candidate) {
      return value_of(candidate, answer.objective) <= answer.search.best;
    });
    text += fmt::format("; {} estimated faster, {}",
                        least == answer.candidates.end() ? std::string("another plan is")
                                                         : fmt::format("plan {} is", least - answer.candidates.begin() + 1),
                        objective_text(answer.objective, answer.search.best));
  }
  if (answer.search.lower_bound > 0 && value > 0)
    text += fmt::format("; at most {:.2f} % above the lower bound {}", 100 * (value / answer.search.lower_bound - 1),
                        objective_text(answer.objective, answer.search.lower_bound));
  return text;
}

// " on 6 of 8 devices": where some are idle, though paid for.
std::string devices_text(const Answer& answer, const Candidate& best) {
  const std::size_t idle = unused_devices(answer, best).size();
  return idle == 0 ? "" : fmt::format(" on {} of {} devices", static_cast<std::size_t>(answer.devices) - idle, answer.devices);
}

// The figure that decided, and the other one.
std::string headline(const Answer& answer, const TextStyle& style) {
  const Candidate& best = answer.candidates.front();
  const std::string objective = objective_text(answer.objective, value_of(best, answer.objective));
  const std::string devices = devices_text(answer, best);
  if (!is_time(answer))
    return style.paint(kBold, fmt::format("{} {}{}", answer.objective, objective, devices)) +
           fmt::format("  ({})", proof(answer));
  const double* step = find_metric(best.simulated, "step_time_s");
  const std::string simulated = step ? to_text(Duration(*step)) : "";
  if (answer.simulation_decides)
    return style.paint(kBold, fmt::format("step {} simulated{}", simulated, devices)) +
           fmt::format("  (the least of those simulated; estimated {}, {})", objective, proof(answer));
  return style.paint(kBold, fmt::format("step {} estimated{}", objective, devices)) +
         fmt::format("  ({}{})", step ? fmt::format("simulated {}; ", simulated) : std::string(), proof(answer));
}

// Stages that follow each other with the same numbers: one row, where there are many.
constexpr std::size_t kStagesEach = 8;  // rows of their own up to here
constexpr std::size_t kMostRows = 64;   // the document has all
constexpr std::size_t kMostRanges = 6;  // of a stage's devices

struct StageRow {
  std::size_t first = 0, last = 0;
  std::string units;  // "h.0.attention ... h.3.mlp"
  std::vector<int> devices;
};

bool alike(const PlannedStage& a, const PlannedStage& b) {
  return a.operators.size() == b.operators.size() && a.data == b.data && a.tensor == b.tensor &&
         a.recompute.size() == b.recompute.size() && a.devices.size() == b.devices.size();
}

std::vector<StageRow> stage_rows(const std::vector<PlannedStage>& stages) {
  std::vector<StageRow> rows;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (stages.size() > kStagesEach && s > 0 && alike(stages[s], stages[s - 1]))
      rows.back().last = s;
    else
      rows.push_back({s, s, "", {}});
    rows.back().devices.insert(rows.back().devices.end(), stages[s].devices.begin(), stages[s].devices.end());
  }
  for (StageRow& row : rows) {
    const std::vector<std::string>&from = stages[row.first].operators, &to = stages[row.last].operators;
    row.units = from.empty() ? "-" : from.front() == to.back() ? from.front() : from.front() + " ... " + to.back();
  }
  return rows;
}

std::string stages_table(const Candidate& candidate, const TextStyle& style) {
  constexpr std::size_t kLeastNames = 12;
  TextTable table(
      {"stage", "units", TextColumn("<from ... to").shrinks_to(kLeastNames), "data", "tensor", "recomputed", "<devices"});
  std::size_t shown = 0;
  for (const StageRow& row : stage_rows(candidate.stages)) {
    if (shown++ >= kMostRows) {
      table.line(fmt::format("  ... and {} more stages; --json has them all", candidate.stages.size() - row.first));
      break;
    }
    const PlannedStage& stage = candidate.stages[row.first];
    const bool several = row.last > row.first;
    table.row({several ? fmt::format("{}-{}", row.first, row.last) : std::to_string(row.first),
               std::to_string(stage.operators.size()), row.units, std::to_string(stage.data), std::to_string(stage.tensor),
               std::to_string(stage.recompute.size()),
               ranges_text(row.devices, kMostRanges) + (several ? fmt::format(", {} a stage", stage.devices.size()) : "")});
  }
  return table.text(style);
}

// The memory that the fullest device needs, of the memory that it may fill.
std::string memory_line(const Candidate& candidate) {
  const Bytes limit(static_cast<std::int64_t>(value_of(candidate, "memory_limit_bytes")));
  if (limit <= Bytes(0)) return "";
  const Bytes need(std::llround(value_of(candidate, "memory_share") * static_cast<double>(limit.base())));
  const std::string doubt = doubtful_room(need, limit);
  return "  memory: the fullest device needs " + need_of_limit(need, limit) + (doubt.empty() ? "" : "; " + doubt) + "\n";
}

std::string unused_line(const Answer& answer, const Candidate& candidate) {
  const std::string text = unused_devices_text(unused_devices(answer, candidate), answer.devices);
  return text.empty() ? "" : "  warning: " + text + "\n";
}

std::string memory_cell(const Candidate& candidate) {
  const double* peak = find_metric(candidate.metrics, "peak_memory_bytes");
  if (!peak) return "-";
  const double share = value_of(candidate, "memory_share");
  return to_text(Bytes(static_cast<std::int64_t>(*peak))) +
         (share > 0 ? fmt::format(" {:>4.0f} %", std::floor(100 * share)) : "");
}

// The step's figures for training, by the engine that decided.
std::string rates_line(const Answer& answer, const Candidate& best, int tokens_per_sample) {
  const auto& metrics = answer.simulation_decides && find_metric(best.simulated, "samples_per_s") ? best.simulated : best.metrics;
  const double* samples = find_metric(metrics, "samples_per_s");
  const double* mfu = find_metric(metrics, "mfu");
  const std::string text = rates_text(samples ? *samples : 0, tokens_per_sample, mfu ? *mfu : 0);
  return text.empty() ? "" : "  " + text + "\n";
}

std::string run_text(const Candidate& best) { return best.run ? run_lines(*best.run) : ""; }

// How sure the step is, and which runner-ups it does not distinguish from the plan.
std::string sureness_lines(const Answer& answer, const Candidate& best) {
  std::string out;
  const auto& metrics = answer.simulation_decides ? best.simulated : best.metrics;
  const double* low = find_metric(metrics, "step_time_p10_s");
  const double* high = find_metric(metrics, "step_time_p90_s");
  if (best.evidence && low && high) out += "  " + sureness_text(*low, *high, *best.evidence) + "\n";
  std::vector<int> ties;
  for (std::size_t c = 1; c < answer.candidates.size(); ++c)
    if (is_tie(answer, answer.candidates[c])) ties.push_back(static_cast<int>(c) + 1);
  if (!ties.empty())
    out += fmt::format(
        "  a tie with plan{} {}: measured, one of ten pairs of plans that are predicted {:.1f} % apart is the other "
        "way round\n",
        ties.size() > 1 ? "s" : "", ranges_text(ties, kMostRanges), 100 * answer.tie_within);
  return out;
}

// Adds an explanation, because names of schedules mean little to a new user.
std::string schedule_line(const Candidate& candidate) {
  const ScheduleFamily* family = find_family(candidate.schedule);
  return family == nullptr ? "" : fmt::format("  {}: {}\n", family->name, family->summary);
}

// In the order of the first column of figures.
std::string candidates_table(const Answer& answer, const TextStyle& style) {
  TextColumn first = is_time(answer) ? "estimated" : "objective", second = "simulated";
  if (answer.simulation_decides) std::swap(first, second);
  TextTable table({"", first, second, "memory", "<plan"});
  for (std::size_t c = 0; c < answer.candidates.size(); ++c) {
    const Candidate& candidate = answer.candidates[c];
    const double* value = find_metric(candidate.metrics, answer.objective);
    const double* step = find_metric(candidate.simulated, "step_time_s");
    std::string of_objective = value ? objective_text(answer.objective, *value) : "-";
    std::string simulated = step ? to_text(Duration(*step)) : "-";
    if (answer.simulation_decides) std::swap(of_objective, simulated);
    table.row({std::to_string(c + 1), of_objective, simulated, memory_cell(candidate), candidate.summary});
  }
  return table.text(style);
}

// What to know before the trainer starts the best plan.
std::string caution_lines(const Candidate& best) {
  std::string lines;
  for (const std::string& caution : best.cautions) lines += "  caution: " + caution + "\n";
  return lines;
}

}  // namespace

std::string to_table(const Answer& answer, const TextStyle& style, int tokens_per_sample) {
  std::string out;
  if (answer.candidates.empty()) {
    out = style.paint(kBold, "no plan") + ": " + answer.reason + "\n";
  } else {
    const Candidate& best = answer.candidates.front();
    out = headline(answer, style) + "\n  " + best.summary + "\n" + schedule_line(best) +
          rates_line(answer, best, tokens_per_sample) + run_text(best) + stages_table(best, style) + memory_line(best) +
          unused_line(answer, best) + caution_lines(best) + candidates_table(answer, style) + sureness_lines(answer, best);
  }
  out += fmt::format("  {} evaluated, {} excluded", answer.search.evaluated, answer.search.pruned);
  if (answer.search.lower_bound > 0)
    out += fmt::format(", lower bound {}{}", objective_text(answer.objective, answer.search.lower_bound),
                       is_time(answer) ? " on idle links" : "");
  out += "\n";
  for (const std::string& note : answer.notes) out += "  " + note + "\n";
  return wrapped(out, style.width);
}

}  // namespace panpipe::planner
