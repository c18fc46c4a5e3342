// A sweep as JSON, CSV and a table.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>

#include "base/text/csv_text.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "present/page/plots.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::study {
namespace {

// Those that any cell has, in the order of the first that has them.
std::vector<std::string> metric_names(const std::vector<SweepCell>& cells) {
  std::vector<std::string> names;
  for (const SweepCell& cell : cells)
    for (const auto& metric : cell.metrics)
      if (std::find(names.begin(), names.end(), metric.first) == names.end()) names.push_back(metric.first);
  return names;
}

std::optional<std::string> or_null(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

void write_cell(JsonWriter& out, const SweepGrid& grid, const SweepCell& cell, bool on_front, bool is_best) {
  out.object(JsonLayout::Lines).field("index", cell.index).object("settings", JsonLayout::Lines);
  const std::vector<std::string> values = grid.values(cell.index);
  for (std::size_t i = 0; i < values.size(); ++i) out.field(grid.axes[i].key, values[i]);
  out.end().field("status", name_of(cell.status)).field("reason", or_null(cell.reason));
  if (cell.has_answer()) {
    out.object("metrics", JsonLayout::Lines);
    for (const auto& [name, value] : cell.metrics) write_metric(out, name, value);
    out.field("fits", cell.status == CellStatus::Fits).end();
  } else {
    out.field("metrics", nullptr);
  }
  if (!grid.method.empty()) out.field("plan", or_null(cell.plan));
  out.field("pareto", on_front).field("best", is_best).end();
}

std::vector<bool> marks(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  std::vector<bool> on_front(cells.size(), false);
  for (const std::size_t i : pareto_cells(grid, cells)) on_front[i] = true;
  return on_front;
}

// The first of each ranking, where it fits.
std::vector<bool> best_cells(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  std::vector<bool> best(cells.size(), false);
  for (const auto& order : rankings(grid, cells))
    if (cells[order.front()].status == CellStatus::Fits) best[order.front()] = true;
  return best;
}

std::string bytes_text(double bytes) { return to_text(Bytes(static_cast<std::int64_t>(bytes))); }

// Figures of the whole run, where cells have them.
struct RunColumn {
  const char *metric, *head;
  std::string (*text)(double);
};
constexpr RunColumn kRunColumns[] = {{"run_time_s", "run", long_time_text},
                                     {"gpu_hours", "GPU hours", count_text},
                                     {"goodput", "goodput", percent},
                                     {"cost", "cost", [](double value) { return money_text(value, ""); }},
                                     {"energy_kwh", "energy", energy_text}};

std::vector<RunColumn> run_columns(const std::vector<SweepCell>& cells) {
  std::vector<RunColumn> columns;
  for (const RunColumn& column : kRunColumns)
    if (std::any_of(cells.begin(), cells.end(), [&](const SweepCell& cell) { return cell.metric(column.metric).has_value(); }))
      columns.push_back(column);
  return columns;
}

std::vector<std::string> row_of(const SweepGrid& grid, const SweepCell& cell, const SweepMeasure& measure,
                                const std::vector<RunColumn>& of_run, bool medians, const std::string& verdict) {
  std::vector<std::string> row = grid.values(cell.index);
  const auto shown = [&](const std::optional<double>& value, auto&& text) { row.push_back(value ? text(*value) : "-"); };
  const auto time = [](double value) { return to_text(Duration(value)); };
  shown(cell.metric("step_time_s"), time);
  if (medians) shown(cell.metric("step_time_p50_s"), time);
  if (measure.per_sample) shown(measure.of(cell), time);
  shown(cell.metric("samples_per_s"), [](double value) { return fmt::format("{:.4g}", value); });
  shown(cell.metric("mfu"), [](double value) { return value > 0 ? percent(value) : "-"; });
  shown(cell.metric("bubble_step"), percent);
  shown(cell.metric("peak_memory_bytes"), bytes_text);
  for (const RunColumn& column : of_run) shown(cell.metric(column.metric), column.text);
  row.push_back(cell.plan.empty() ? verdict : verdict + (verdict.empty() ? "" : "; ") + cell.plan);
  return row;
}

}  // namespace

std::optional<double> SweepMeasure::of(const SweepCell& cell) const {
  if (!per_sample) return cell.metric("step_time_s");
  const auto rate = cell.metric("samples_per_s");
  return rate && *rate > 0 ? std::optional<double>(1 / *rate) : std::nullopt;
}

SweepMeasure measure_for(const std::vector<SweepCell>& cells) {
  double least = 0, most = 0;  // samples per step
  for (const SweepCell& cell : cells) {
    const double samples = cell.metric("step_time_s").value_or(0) * cell.metric("samples_per_s").value_or(0);
    if (!(samples > 0)) continue;
    least = least > 0 ? std::min(least, samples) : samples;
    most = std::max(most, samples);
  }
  return {most > least * (1 + 1e-6)};
}

namespace {

// Indices of the cells of each environment, in the grid's order.
std::vector<std::vector<std::size_t>> by_environment(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::string, std::size_t> group_of;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto [group, is_new] = group_of.emplace(grid.environment(cells[i].index), groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(i);
  }
  return groups;
}

}  // namespace

std::vector<std::vector<std::size_t>> rankings(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const SweepMeasure measure = measure_for(cells);
  const auto key = [&](std::size_t i) {
    const int kind = cells[i].status == CellStatus::Fits ? 0 : cells[i].has_answer() ? 1 : 2;
    const std::optional<double> time = kind < 2 ? measure.of(cells[i]) : std::nullopt;
    return std::tuple(kind, time.value_or(std::numeric_limits<double>::infinity()),
                      kind < 2 ? cells[i].metric("peak_memory_bytes").value_or(0) : 0);
  };
  std::vector<std::vector<std::size_t>> groups = by_environment(grid, cells);
  for (auto& group : groups)
    std::stable_sort(group.begin(), group.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return groups;
}

std::vector<std::size_t> pareto_cells(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const SweepMeasure measure = measure_for(cells);
  std::vector<std::size_t> all;
  for (const auto& group : by_environment(grid, cells)) {
    std::vector<present::Point> points;
    for (const std::size_t i : group) {
      const auto memory = cells[i].metric("peak_memory_bytes"), time = measure.of(cells[i]);
      points.push_back({memory.value_or(0), time.value_or(0), 0, "", cells[i].status != CellStatus::Fits || !memory || !time});
    }
    for (const std::size_t on_front : present::pareto_front(points)) all.push_back(group[on_front]);
  }
  return all;
}

namespace {

// In the measure of `time`, which may be of a sample.
std::string interval_text(const SweepCell& cell, const std::optional<double>& time, bool median) {
  const auto step = cell.metric("step_time_s"), low = cell.metric("step_time_p10_s"), high = cell.metric("step_time_p90_s");
  if (!time || !step || !low || !high || *step <= 0 || *high <= 0) return "";
  std::string text = fmt::format("80 % of runs from {} to {}", to_text(Duration(*low * *time / *step)),
                                 to_text(Duration(*high * *time / *step)));
  if (const auto half = cell.metric("step_time_p50_s"); median && half)
    text += fmt::format(", half above {}", to_text(Duration(*half * *time / *step)));
  return text;
}

// The cells of one environment, ranked.
std::string conclusion_of(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::vector<std::size_t>& order) {
  const SweepMeasure measure = measure_for(cells);
  const SweepCell& best = cells[order.front()];
  const std::string where = grid.environment(best.index);
  const std::string place = where.empty() ? std::string() : fmt::format(" for {}", where);
  if (best.status != CellStatus::Fits) {
    if (where.empty()) return best.has_answer() ? "no cell fits" : "no cell has an answer";
    return fmt::format("best{}: {}", place, best.has_answer() ? "none fits" : "none has an answer");
  }
  const std::optional<double> time = measure.of(best);
  std::string text = fmt::format("best{}: {}", place, grid.choice(best.index));
  if (time) text += fmt::format(": {} a {}", to_text(Duration(*time)), measure.per_sample ? "sample" : "step");
  if (const std::string range = interval_text(best, time, with_evidence(cells)); !range.empty()) text += " (" + range + ")";
  if (const auto memory = best.metric("peak_memory_bytes")) text += ", " + bytes_text(*memory);
  if (!best.reason.empty()) text += " (" + best.reason + ")";
  if (order.size() > 1 && time && cells[order[1]].status == CellStatus::Fits)
    if (const auto next = measure.of(cells[order[1]]); next && *next > 0) {
      const double less = 100 * (1 - *time / *next);
      text += less < 0.05 ? "; others are as fast" : fmt::format("; {:.1f} % less than the next", less);
    }
  return text;
}

constexpr std::size_t kMostEnvironments = 24;  // lines of a conclusion; the documents have all

}  // namespace

std::string conclusion(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const auto groups = rankings(grid, cells);
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kMostEnvironments); ++i) {
    if (i > 0) text += '\n';
    text += conclusion_of(grid, cells, groups[i]);
  }
  if (groups.size() > kMostEnvironments)
    text += fmt::format("\n... and {} more; \"best\" in --json and --csv marks all", groups.size() - kMostEnvironments);
  return text;
}

bool with_evidence(const std::vector<SweepCell>& cells) {
  return std::any_of(cells.begin(), cells.end(), [](const SweepCell& cell) { return !cell.evidence.empty(); });
}

std::string evidence_heading(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const auto first = std::find_if(cells.begin(), cells.end(), [](const SweepCell& cell) { return !cell.evidence.empty(); });
  if (first == cells.end()) return "";
  std::string text = fmt::format("evidence, as it counts for {}:\n", grid.title(first->index));
  for (const std::string& line : first->evidence) text += "  " + line + "\n";
  return text;
}

SweepVerdicts verdicts(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  SweepVerdicts result;
  std::map<std::string, std::size_t> numbers;  // of reasons
  for (const SweepCell& cell : cells) {
    if (cell.status == CellStatus::Fits) {
      result.of_cell.push_back(cell.reason);
      continue;
    }
    const std::string reason = fmt::format("{}: {}", name_of(cell.status), cell.reason);
    if (cell.has_answer()) {
      result.of_cell.push_back(reason);
      continue;
    }
    const auto [number, is_new] = numbers.emplace(reason, numbers.size() + 1);
    if (is_new) result.reasons.push_back(fmt::format("({}) {}", number->second, reason));
    result.of_cell.push_back(fmt::format("{} ({})", name_of(cell.status), number->second));
  }
  const std::vector<bool> best = best_cells(grid, cells);
  for (const std::size_t i : pareto_cells(grid, cells)) {
    std::string verdict = best[i] ? "best" : "best within " + bytes_text(cells[i].metric("peak_memory_bytes").value_or(0));
    if (!result.of_cell[i].empty()) verdict += "; " + result.of_cell[i];
    result.of_cell[i] = std::move(verdict);
  }
  return result;
}

std::string to_json(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard) {
  constexpr JsonLayout kLines = JsonLayout::Lines;
  std::map<std::string, std::string> inputs;
  for (const SweepCell& cell : cells) inputs.insert(cell.inputs.begin(), cell.inputs.end());
  JsonWriter out;
  out.object(kLines).field("schema", "panpipe-sweep/1");
  out.object("context", kLines).field("version", grid.version).object("hashes", kLines);
  for (const auto& [file, hash] : inputs) out.field(file, hash);
  out.end().end().field("scenario", grid.scenario).field("engine", grid.engine).field("plan_each", or_null(grid.method));
  out.field("set", grid.sets).objects("axes", grid.axes, [&](const SweepAxis& axis) {
    out.field("key", axis.key).field("values", axis.values).field("given", is_given(axis.key));
  });
  if (!shard.empty()) out.field("shard", shard);
  out.field("size", grid.size()).list("cells", kLines);
  const std::vector<bool> on_front = marks(grid, cells), best = best_cells(grid, cells);
  for (std::size_t i = 0; i < cells.size(); ++i) write_cell(out, grid, cells[i], on_front[i], best[i]);
  return out.end().end().finish() + "\n";
}

std::string to_csv(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const std::vector<std::string> names = metric_names(cells);
  std::string text;
  for (const SweepAxis& axis : grid.axes) text += csv_cell(axis.key) + ",";
  text += "status,reason,plan";
  for (const std::string& name : names) text.append(1, ',').append(csv_cell(name));
  text += ",best\n";
  const std::vector<bool> best = best_cells(grid, cells);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const SweepCell& cell = cells[i];
    for (const std::string& value : grid.values(cell.index)) text += csv_cell(value) + ",";
    text += fmt::format("{},{},{}", name_of(cell.status), csv_cell(cell.reason), csv_cell(cell.plan));
    for (const std::string& name : names) {
      const auto value = cell.metric(name);
      text += ',';
      if (value) text += json_number(*value);
    }
    text += best[i] ? ",yes\n" : ",\n";
  }
  return text;
}

std::string to_table(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const SweepMeasure measure = measure_for(cells);
  const SweepVerdicts found = verdicts(grid, cells);
  std::vector<TextColumn> columns;
  for (const SweepAxis& axis : grid.axes) columns.push_back("<" + axis.key);
  columns.push_back("step time");
  const bool medians = with_evidence(cells);
  if (medians) columns.push_back("median");
  if (measure.per_sample) columns.push_back("a sample");
  columns.insert(columns.end(), {"samples/s", "MFU", "bubble", "peak memory"});
  const std::vector<RunColumn> of_run = run_columns(cells);
  for (const RunColumn& column : of_run) columns.emplace_back(column.head);
  columns.emplace_back("<");
  TextTable table(std::move(columns));
  for (const auto& group : rankings(grid, cells))
    for (const std::size_t i : group) table.row(row_of(grid, cells[i], measure, of_run, medians, found.of_cell[i]));
  std::string text = grid.heading + evidence_heading(grid, cells) + table.text();
  for (const std::string& reason : found.reasons) text += "  " + reason + "\n";
  const std::string answer = conclusion(grid, cells);
  return text + (answer.empty() ? "" : answer + "\n");
}

}  // namespace panpipe::study
