// An answer for people: the plan found, how good it is, its stages, the runners-up, what was searched.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index_ranges.hpp"
#include "base/text/counted.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/rate_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/run_cost/run_cost_text.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "planner/answer_text.hpp"
#include "planner/candidate.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

bool is_time(const Answer& answer) { return answer.objective.ends_with("_s"); }

double value_of(const Candidate& candidate, const std::string& key) {
  const double* value = figure_named(candidate.metrics, key);
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
  const double* step = figure_named(best.simulated, "step_time_s");
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

// The memory that the fullest device needs, and what it may fill; nothing where that is not known.
struct MemoryRoom {
  Bytes need{0}, limit{0};
};
std::optional<MemoryRoom> memory_room(const Candidate& candidate) {
  const Bytes limit(static_cast<std::int64_t>(value_of(candidate, "memory_limit_bytes")));
  if (limit <= Bytes(0)) return std::nullopt;
  return MemoryRoom{Bytes(std::llround(value_of(candidate, "memory_share") * static_cast<double>(limit.base()))), limit};
}

std::string memory_line(const Candidate& candidate) {
  const auto room = memory_room(candidate);
  if (!room) return "";
  const std::string doubt = doubtful_room(room->need, room->limit);
  return "  memory: the fullest device needs " + need_of_limit(room->need, room->limit) + (doubt.empty() ? "" : "; " + doubt) +
         "\n";
}

std::string unused_line(const Answer& answer, const Candidate& candidate) {
  const std::string text = unused_devices_text(unused_devices(answer, candidate), answer.devices);
  return text.empty() ? "" : "  warning: " + text + "\n";
}

std::string memory_cell(const Candidate& candidate) {
  const double* peak = figure_named(candidate.metrics, "peak_memory_bytes");
  if (!peak) return "-";
  const double share = value_of(candidate, "memory_share");
  return to_text(Bytes(static_cast<std::int64_t>(*peak))) +
         (share > 0 ? fmt::format(" {:>4.0f} %", std::floor(100 * share)) : "");
}

// The step's figures for training, by the engine that decided.
std::string rates_line(const Answer& answer, const Candidate& best, double tokens_per_sample) {
  const auto& metrics =
      answer.simulation_decides && figure_named(best.simulated, "samples_per_s") ? best.simulated : best.metrics;
  const double* samples = figure_named(metrics, "samples_per_s");
  const double* mfu = figure_named(metrics, "mfu");
  const std::string text = rates_text(samples ? *samples : 0, tokens_per_sample, mfu ? *mfu : 0);
  return text.empty() ? "" : "  " + text + "\n";
}

std::string run_text(const Candidate& best) { return best.run ? run_lines(*best.run) : ""; }

// How sure the step is.
std::string sureness(const Answer& answer, const Candidate& best) {
  const auto& metrics = answer.simulation_decides ? best.simulated : best.metrics;
  const double* low = figure_named(metrics, "step_time_p10_s");
  const double* middle = figure_named(metrics, "step_time_p50_s");
  const double* high = figure_named(metrics, "step_time_p90_s");
  return best.evidence && low && middle && high ? sureness_text(*low, *middle, *high, *best.evidence) : "";
}

// The runner-ups, and yours, that the errors do not distinguish from the plan.
std::string ties_line(const Answer& answer) {
  std::vector<int> ties;
  for (std::size_t c = 1; c < answer.candidates.size(); ++c)
    if (is_tie(answer, answer.candidates[c])) ties.push_back(static_cast<int>(c) + 1);
  const bool with_yours = answer.yours && is_tie(answer, *answer.yours);
  if (ties.empty() && !with_yours) return "";
  std::string whom = with_yours ? "yours" : "";
  if (!ties.empty())
    whom += fmt::format("{}plan{} {}", with_yours ? " and " : "", ties.size() > 1 ? "s" : "", ranges_text(ties, kMostRanges));
  return fmt::format(
      "  a tie with {}: measured, one of ten pairs of plans that are predicted {:.1f} % apart is the other way round\n", whom,
      100 * answer.tie_within);
}

// What evidence moved. Measured on published runs, the plans of one machine are in the right order 92 times in 100 without given
// steps and 92 times with three.
std::string evidence_lines(const Answer& answer, const Candidate& best) {
  if (!best.evidence || best.evidence->pieces.empty()) return "";
  const double* median = figure_named(answer.simulation_decides ? best.simulated : best.metrics, "step_time_p50_s");
  return evidence_text(median ? *median : 0, *best.evidence) +
         "  evidence corrects times; the order of the plans hardly changes by it\n";
}

std::string sureness_lines(const Answer& answer, const Candidate& best) {
  const std::string text = sureness(answer, best);
  return (text.empty() ? "" : "  " + text + "\n") + evidence_lines(answer, best) + ties_line(answer);
}

// Adds an explanation, because names of schedules mean little to a new user.
std::string schedule_line(const Candidate& candidate) {
  const ScheduleFamily* family = find_family(candidate.schedule);
  return family == nullptr ? "" : fmt::format("  {}: {}\n", family->name, family->summary);
}

// What a row's figures do not show.
std::string row_note(const Answer& answer, const Candidate& candidate) {
  std::vector<std::string> notes;
  if (room_of(candidate) == Room::None) notes.emplace_back("does not fit");
  if (room_of(candidate) == Room::Hardly) notes.emplace_back("hardly fits");
  if (is_tie(answer, candidate)) notes.emplace_back("a tie");
  if (const std::size_t idle = unused_devices(answer, candidate).size(); idle > 0) notes.push_back(fmt::format("{} idle", idle));
  return fmt::format("{}", fmt::join(notes, ", "));
}

enum class TableOf : std::uint8_t { DecidingFigure, BothFigures };

// Yours first, then the plans in the order of the first column of figures.
std::string candidates_table(const Answer& answer, const TextStyle& style, TableOf figures) {
  TextColumn first = is_time(answer) ? "estimated" : "objective", second = "simulated";
  if (answer.simulation_decides) std::swap(first, second);
  std::vector<std::pair<std::string, const Candidate*>> rows;
  if (answer.yours) rows.emplace_back("yours", &*answer.yours);
  for (std::size_t c = 0; c < answer.candidates.size(); ++c) rows.emplace_back(std::to_string(c + 1), &answer.candidates[c]);
  const bool noted =
      std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return !row_note(answer, *row.second).empty(); });
  std::vector<TextColumn> columns = {"", first};
  if (figures == TableOf::BothFigures) columns.push_back(second);
  if (answer.yours) columns.emplace_back("gain");
  columns.emplace_back("memory");
  if (noted) columns.emplace_back("<");
  columns.emplace_back("<plan");
  TextTable table(columns);
  for (const auto& [name, candidate] : rows) {
    const double* value = figure_named(candidate->metrics, answer.objective);
    const double* step = figure_named(candidate->simulated, "step_time_s");
    std::string of_objective = value ? objective_text(answer.objective, *value) : "-";
    std::string simulated = step ? to_text(Duration(*step)) : "-";
    if (answer.simulation_decides) std::swap(of_objective, simulated);
    std::vector<std::string> cells = {name, of_objective};
    if (figures == TableOf::BothFigures) cells.push_back(simulated);
    const auto gain = gain_over_yours(answer, *candidate);
    if (answer.yours) cells.push_back(candidate == &*answer.yours ? "" : gain ? fmt::format("{:.1f} %", 100 * *gain) : "-");
    cells.push_back(memory_cell(*candidate));
    if (noted) cells.push_back(row_note(answer, *candidate));
    cells.push_back(candidate->summary);
    table.row(std::move(cells));
  }
  return table.text(style);
}

// What to know before the trainer starts the best plan, and what holds of yours alone.
std::string caution_lines(const Answer& answer) {
  std::string lines;
  const std::vector<std::string> none, &best = answer.candidates.empty() ? none : answer.candidates.front().cautions;
  for (const std::string& caution : best) lines += "  caution: " + caution + "\n";
  for (const std::string& caution : answer.yours ? answer.yours->cautions : none)
    if (std::find(best.begin(), best.end(), caution) == best.end()) lines += "  caution for yours: " + caution + "\n";
  return lines;
}

// " (26.05 GiB of 23.52 GiB usable, 111 %)"
std::string need_text(const Candidate& candidate) {
  const auto room = memory_room(candidate);
  return room ? fmt::format(" ({})", need_of_limit(room->need, room->limit)) : "";
}

// Faster plans that stand behind the first because they hardly fit.
std::string hardly_lines(const Answer& answer) {
  std::string lines;
  for (std::size_t c = 1; c < answer.candidates.size(); ++c) {
    const Candidate& candidate = answer.candidates[c];
    if (const auto gain = gain_without_room(answer, candidate); gain && room_of(candidate) == Room::Hardly)
      lines += fmt::format("  plan {} takes {:.1f} % less time than plan 1, and hardly fits{}\n", c + 1, 100 * *gain,
                           need_text(candidate));
  }
  return lines;
}

// Whether yours is good.
std::string conclusion(const Answer& answer) {
  const Candidate& best = answer.candidates.front();
  const std::string devices = devices_text(answer, best);
  const std::string own = objective_text(answer.objective, deciding_figure(answer, best));
  if (!is_time(answer)) return fmt::format("{} {}{}", answer.objective, own, devices);
  const std::string step = fmt::format("step {} {}{}", own, answer.simulation_decides ? "simulated" : "estimated", devices);
  const auto gain = gain_over_yours(answer, best);
  if (!gain) return step;
  const std::string yours = to_text(Duration(deciding_figure(answer, *answer.yours)));
  if (!fits_in_memory(*answer.yours))
    return fmt::format("yours does not fit{}; plan 1 does: {}, yours {}", need_text(*answer.yours), step, yours);
  constexpr double kEqual = 1e-9;
  if (std::abs(*gain) < kEqual && answer.search.evaluated == 1) return "yours is the only plan searched: " + step;
  if (std::abs(*gain) < kEqual) return fmt::format("yours is as fast as the best plan found: {}", step);
  const std::string tie = is_tie(answer, *answer.yours) ? ", a tie" : "";
  if (*gain < 0) return fmt::format("yours is faster than every plan found{}: {}, yours {}", tie, step, yours);
  return fmt::format("plan 1 takes {:.1f} % less time than yours{}: {}, yours {}", 100 * *gain, tie, step, yours);
}

// Ours and plain PyTorch run what no other trainer has.
std::string trainers_line(const Answer& answer) {
  const auto runs_anything = [](const std::string& name) { return name == "panpipe" || name == "torch"; };
  if (answer.runs_in.empty() || !std::all_of(answer.runs_in.begin(), answer.runs_in.end(), runs_anything)) return "";
  return fmt::format("  plan 1 runs only in: {}; --for TRAINER searches what a trainer can run\n",
                     fmt::join(answer.runs_in, ", "));
}

// "16.2 d, 2,741 USD"
std::string run_in_short(const RunCost& run) {
  return long_time_text(run.time_s) + (run.cost ? ", " + money_text(*run.cost, run.currency) : "");
}

std::string run_line(const Answer& answer) {
  const std::optional<RunCost>& run = answer.candidates.front().run;
  if (!run) return "";
  std::string text = fmt::format("  the run of {} {}: {}", count_text(run->amount), name_of(run->counted), run_in_short(*run));
  if (answer.yours && answer.yours->run && fits_in_memory(*answer.yours))
    text += fmt::format("; with yours {}", run_in_short(*answer.yours->run));
  return text + "\n";
}

std::string without_yours_line(const Answer& answer) {
  return answer.without_yours.empty() ? "" : "  " + answer.without_yours + "\n";
}

// What is wrong with the plan's memory and devices, and its cautions.
std::string warnings(const Answer& answer, const Candidate& best) {
  const auto room = memory_room(best);
  const std::string doubt = room ? doubtful_room(room->need, room->limit) : "";
  return (doubt.empty() ? "" : fmt::format("  memory of plan 1: {}\n", doubt)) + unused_line(answer, best) +
         caution_lines(answer);
}

}  // namespace

std::string to_summary(const Answer& answer, const TextStyle& style) {
  std::string out;
  if (answer.candidates.empty()) {
    out = style.paint(kBold, "no plan") + ": " + answer.reason + "\n";
    if (answer.yours) out += candidates_table(answer, style, TableOf::DecidingFigure) + caution_lines(answer);
    return wrapped(out + without_yours_line(answer) + "  --verbose says what was searched\n", style.width);
  }
  const Candidate& best = answer.candidates.front();
  out = style.paint(kBold, conclusion(answer)) + "\n" + candidates_table(answer, style, TableOf::DecidingFigure) +
        hardly_lines(answer) + run_line(answer);
  const bool ties = !ties_line(answer).empty();
  std::string sure = sureness(answer, best);
  if (ties) sure += fmt::format("{}plans within {:.1f} % are a tie", sure.empty() ? "" : "; ", 100 * answer.tie_within);
  if (!sure.empty()) out += "  " + sure + "\n";
  out += evidence_lines(answer, best);
  out += warnings(answer, best) + trainers_line(answer) + without_yours_line(answer);
  out += fmt::format("  {} evaluated, {}; --verbose shows stages and search\n", counted(answer.search.evaluated, "plan"),
                     proof(answer));
  return wrapped(out, style.width);
}

std::string to_table(const Answer& answer, const TextStyle& style, double tokens_per_sample) {
  std::string out;
  if (answer.candidates.empty()) {
    out = style.paint(kBold, "no plan") + ": " + answer.reason + "\n";
    if (answer.yours) out += candidates_table(answer, style, TableOf::BothFigures) + caution_lines(answer);
  } else {
    const Candidate& best = answer.candidates.front();
    out = headline(answer, style) + "\n  " + best.summary + "\n" + schedule_line(best) +
          rates_line(answer, best, tokens_per_sample) + run_text(best) + stages_table(best, style) + memory_line(best) +
          unused_line(answer, best) + caution_lines(answer) + candidates_table(answer, style, TableOf::BothFigures) +
          hardly_lines(answer) + sureness_lines(answer, best);
  }
  out += without_yours_line(answer);
  out += fmt::format("  {} evaluated, {} excluded", answer.search.evaluated, answer.search.pruned);
  if (answer.search.lower_bound > 0)
    out += fmt::format(", lower bound {}{}", objective_text(answer.objective, answer.search.lower_bound),
                       is_time(answer) ? " on idle links" : "");
  out += "\n";
  for (const std::string& note : answer.notes) out += "  " + note + "\n";
  return wrapped(out, style.width);
}

}  // namespace panpipe::planner
