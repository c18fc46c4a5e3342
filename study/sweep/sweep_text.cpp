// A sweep as JSON, CSV and a table.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "base/text/quantity_text.hpp"
#include "present/page/plots.hpp"
#include "base/text/json_text.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::planner {
namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

// Those that any cell has, in the order of the first that has them.
std::vector<std::string> metric_names(const std::vector<SweepCell>& cells) {
  std::vector<std::string> names;
  for (const SweepCell& cell : cells)
    for (const auto& metric : cell.metrics)
      if (std::find(names.begin(), names.end(), metric.first) == names.end()) names.push_back(metric.first);
  return names;
}

nlohmann::ordered_json cell_json(const SweepGrid& grid, const SweepCell& cell, bool on_front) {
  nlohmann::ordered_json result = {{"index", cell.index}, {"settings", nlohmann::ordered_json::object()}};
  const std::vector<std::string> values = grid.values(cell.index);
  for (std::size_t i = 0; i < values.size(); ++i) result["settings"][grid.axes[i].key] = values[i];
  result["status"] = name_of(cell.status);
  result["reason"] = cell.reason.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(cell.reason);
  result["metrics"] = nullptr;
  if (cell.has_answer()) {
    result["metrics"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : cell.metrics) {
      if (const Metric* metric = find_metric(name); metric && metric->unit == MetricUnit::Byte) {  // whole, as in a result
        result["metrics"][name] = static_cast<std::int64_t>(value);
      } else {
        result["metrics"][name] = value;
      }
    }
    result["metrics"]["fits"] = cell.status == CellStatus::Fits;
  }
  if (!grid.method.empty()) result["plan"] = cell.plan.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(cell.plan);
  result["pareto"] = on_front;
  return result;
}

std::vector<bool> marks(const std::vector<SweepCell>& cells) {
  std::vector<bool> on_front(cells.size(), false);
  for (const std::size_t i : pareto_cells(cells)) on_front[i] = true;
  return on_front;
}

std::string memory_text(double bytes) { return to_text(Bytes(static_cast<std::int64_t>(bytes))); }

// Columns as wide as what stands in them; numbers to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t words) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool left = i < words || i + 1 == row.size();
      line += left ? fmt::format("  {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::vector<std::string> row_of(const SweepGrid& grid, const SweepCell& cell, const SweepMeasure& measure,
                                const std::string& verdict) {
  std::vector<std::string> row = grid.values(cell.index);
  const auto shown = [&](const std::optional<double>& value, auto&& text) { row.push_back(value ? text(*value) : "-"); };
  const auto time = [](double value) { return to_text(Duration(value)); };
  shown(cell.metric("step_time_s"), time);
  if (measure.per_sample) shown(measure.of(cell), time);
  shown(cell.metric("samples_per_s"), [](double value) { return fmt::format("{:.4g}", value); });
  shown(cell.metric("mfu"), [](double value) { return value > 0 ? fmt::format("{:.1f} %", 100 * value) : std::string("-"); });
  shown(cell.metric("bubble_step"), [](double value) { return fmt::format("{:.1f} %", 100 * value); });
  shown(cell.metric("peak_memory_bytes"), memory_text);
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

std::vector<std::size_t> pareto_cells(const std::vector<SweepCell>& cells) {
  const SweepMeasure measure = measure_for(cells);
  std::vector<page::Point> points;
  for (const SweepCell& cell : cells) {
    const auto memory = cell.metric("peak_memory_bytes"), time = measure.of(cell);
    points.push_back({memory.value_or(0), time.value_or(0), 0, "", cell.status != CellStatus::Fits || !memory || !time});
  }
  return page::pareto_front(points);
}

std::vector<std::size_t> ranking(const std::vector<SweepCell>& cells) {
  const SweepMeasure measure = measure_for(cells);
  const auto key = [&](std::size_t i) {
    const int kind = cells[i].status == CellStatus::Fits ? 0 : cells[i].has_answer() ? 1 : 2;
    const std::optional<double> time = kind < 2 ? measure.of(cells[i]) : std::nullopt;
    return std::tuple(kind, time.value_or(std::numeric_limits<double>::infinity()),
                      kind < 2 ? cells[i].metric("peak_memory_bytes").value_or(0) : 0);
  };
  std::vector<std::size_t> order(cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

std::string conclusion(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const std::vector<std::size_t> order = ranking(cells);
  if (order.empty()) return "";
  const SweepMeasure measure = measure_for(cells);
  const SweepCell& best = cells[order.front()];
  if (best.status != CellStatus::Fits) return best.has_answer() ? "no cell fits" : "no cell has an answer";
  const std::optional<double> time = measure.of(best);
  std::string text = fmt::format("best: {}", grid.title(best.index));
  if (time) text += fmt::format(": {} a {}", to_text(Duration(*time)), measure.per_sample ? "sample" : "step");
  if (const auto memory = best.metric("peak_memory_bytes")) text += ", " + memory_text(*memory);
  if (order.size() > 1 && time && cells[order[1]].status == CellStatus::Fits)
    if (const auto next = measure.of(cells[order[1]]); next && *next > 0) {
      const double less = 100 * (1 - *time / *next);
      text += less < 0.05 ? "; others are as fast" : fmt::format("; {:.1f} % less than the next", less);
    }
  return text;
}

SweepVerdicts verdicts(const std::vector<SweepCell>& cells) {
  SweepVerdicts result;
  std::map<std::string, std::size_t> numbers;  // of reasons
  for (const SweepCell& cell : cells) {
    if (cell.status == CellStatus::Fits) {
      result.of_cell.emplace_back();
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
  const std::vector<std::size_t> order = ranking(cells);
  for (const std::size_t i : pareto_cells(cells))
    result.of_cell[i] =
        i == order.front() ? "best" : "best within " + memory_text(cells[i].metric("peak_memory_bytes").value_or(0));
  return result;
}

std::string to_json(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard) {
  nlohmann::ordered_json document = {{"schema", "panpipe-sweep/1"}};
  std::map<std::string, std::string> inputs;
  for (const SweepCell& cell : cells) inputs.insert(cell.inputs.begin(), cell.inputs.end());
  document["context"] = {{"version", grid.version}, {"hashes", inputs}};
  document["scenario"] = grid.scenario;
  document["engine"] = grid.engine;
  document["plan_each"] = grid.method.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(grid.method);
  document["set"] = grid.sets;
  document["axes"] = nlohmann::ordered_json::array();
  for (const SweepAxis& axis : grid.axes)
    document["axes"].push_back(nlohmann::ordered_json{{"key", axis.key}, {"values", axis.values}});
  if (!shard.empty()) document["shard"] = shard;
  document["size"] = grid.size();
  document["cells"] = nlohmann::ordered_json::array();
  const std::vector<bool> on_front = marks(cells);
  for (std::size_t i = 0; i < cells.size(); ++i) document["cells"].push_back(cell_json(grid, cells[i], on_front[i]));
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_csv(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const std::vector<std::string> names = metric_names(cells);
  std::string text;
  for (const SweepAxis& axis : grid.axes) text += quoted(axis.key) + ",";
  text += "status,reason,plan";
  for (const std::string& name : names) text.append(1, ',').append(quoted(name));
  text += "\n";
  for (const SweepCell& cell : cells) {
    for (const std::string& value : grid.values(cell.index)) text += quoted(value) + ",";
    text += fmt::format("{},{},{}", name_of(cell.status), quoted(cell.reason), quoted(cell.plan));
    for (const std::string& name : names) {
      const auto value = cell.metric(name);
      text += ',';
      if (value) text += json::number(*value);
    }
    text += "\n";
  }
  return text;
}

std::string to_table(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  const SweepMeasure measure = measure_for(cells);
  const SweepVerdicts said = verdicts(cells);
  std::vector<std::vector<std::string>> rows(1);
  for (const SweepAxis& axis : grid.axes) rows[0].push_back(axis.key);
  rows[0].emplace_back("step time");
  if (measure.per_sample) rows[0].emplace_back("a sample");
  rows[0].insert(rows[0].end(), {"samples/s", "MFU", "bubble", "peak memory", ""});
  for (const std::size_t i : ranking(cells)) rows.push_back(row_of(grid, cells[i], measure, said.of_cell[i]));
  std::string text = grid.heading + aligned(rows, grid.axes.size());
  for (const std::string& reason : said.reasons) text += "  " + reason + "\n";
  const std::string answer = conclusion(grid, cells);
  return text + (answer.empty() ? "" : answer + "\n");
}

}  // namespace panpipe::planner
