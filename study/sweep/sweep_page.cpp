// A sweep as a page: what is best, step time against memory, step time along each axis, every cell.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "base/text/memory_text.hpp"
#include "base/text/quantity_text.hpp"
#include "present/page/page.hpp"
#include "present/picture/picture_layout.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::study {
namespace {

// More lines than this (the palette's hues) cannot be told apart, and more bars are the table again: then only the best over the
// other axes is drawn.
constexpr std::size_t kMostLines = 7, kMostBars = 16;
constexpr double kBeyond = 1.6;  // cells that need so much more than any that fits would press those together
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class SweepPage {
 public:
  SweepPage(const SweepGrid& grid, const std::vector<SweepCell>& cells)
      : grid_(grid),
        cells_(cells),
        name_(grid.scenario.substr(grid.scenario.find_last_of('/') + 1)),
        measure_(measure_for(cells)),
        rankings_(rankings(grid, cells)),
        verdicts_(verdicts(grid, cells)) {
    for (const auto& group : rankings_) order_.insert(order_.end(), group.begin(), group.end());
    double longest = 0, longest_step = 0, largest = 0;
    for (const SweepCell& cell : cells) {
      values_.push_back(grid.values(cell.index));
      longest = std::max(longest, measure_.of(cell).value_or(0));
      longest_step = std::max(longest_step, cell.metric("step_time_s").value_or(0));
      largest = std::max(largest, cell.metric("peak_memory_bytes").value_or(0));
    }
    memory_scale_ = memory_scale(largest);
    scale_ = present::time_scale(longest);
    step_scale_ = present::time_scale(longest_step);
  }

  std::string run(const std::string& shard) {
    const char* engine = grid_.engine == "simulate" ? "simulated, links are shared" : "estimated, links are idle";
    present::Page page(title(), fmt::format("{}: {}{}{}; panpipe {}", name_, engine,
                                            grid_.method.empty() ? "" : ", planned cell by cell (" + grid_.method + ")",
                                            shard.empty() ? "" : ", shard " + shard, grid_.version));
    std::istringstream heading(grid_.heading + evidence_heading(grid_, cells_));
    for (std::string line; std::getline(heading, line);) page.note(line);
    page.figures(figures());
    page.list(what_varies());
    if (measure_.per_sample) page.note("The cells differ in samples per step, so they are compared by the time per sample.");
    if (rankings_.size() > 1) page.heading("Best for each " + keys(true)).add(best_for_each());
    page.heading(measured() + " against memory").add(pareto());
    const char* front = "The dashed line joins the cells that fit and that no other one beats in both. ";
    page.note(std::string(rankings_.size() > 1 ? "" : front) + "Hollow marks do not fit.");
    const bool one = beyond_ == 1;
    if (beyond_ > 0)
      page.note(fmt::format("{} not fit {} far more memory and would lie beyond the right end; the table has {}.",
                            one ? "One cell that does" : fmt::format("{} cells that do", beyond_), one ? "needs" : "need",
                            one ? "it" : "them"));
    page.heading("Along one axis");
    std::vector<std::string> plots;
    for (std::size_t axis = 0; axis < grid_.axes.size(); ++axis)
      if (grid_.axes[axis].values.size() > 1) plots.push_back(numeric(axis) ? to_html(lines(axis)) : to_html(bars(axis)));
    page.side_by_side(plots);
    page.heading("Every cell");
    if (const std::string answer = conclusion(grid_, cells_); rankings_.size() == 1 && !answer.empty())
      page.note(capital(answer) + ".");
    page.add(table());
    for (const std::string& reason : verdicts_.reasons) page.note(reason);
    return page.to_html();
  }

 private:
  static std::string capital(std::string text) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    return text;
  }

  // The model's name, if the shared heading has one (a heading without begins with the devices), and the swept keys.
  std::string title() const {
    const std::string line = grid_.heading.substr(0, grid_.heading.find('\n')), model = line.substr(0, line.find(" ("));
    const bool has_model = !line.empty() && line.rfind("on ", 0) != 0 && line.find(" (") != std::string::npos;
    return fmt::format("Sweep of {} over {}", has_model ? model : name_, keys(false));
  }

  // Of all axes, or of those that separate environments.
  std::string keys(bool separating) const {
    std::string text;
    for (std::size_t axis = 0; axis < grid_.axes.size(); ++axis)
      if (!separating || grid_.separates(axis)) text += (text.empty() ? "" : ", ") + grid_.axes[axis].key;
    return text;
  }

  present::Table best_for_each() const {
    present::Table table;
    std::vector<std::size_t> axes(grid_.axes.size());  // those of the environment first
    std::iota(axes.begin(), axes.end(), 0);
    const auto chosen = std::stable_partition(axes.begin(), axes.end(), [&](std::size_t axis) { return grid_.separates(axis); });
    for (const std::size_t axis : axes) table.columns.push_back(head_of(axis));
    if (!grid_.method.empty()) table.columns.push_back({"plan", "", false, ""});
    table.columns.insert(table.columns.end(), {{measure_.name(), scale_.unit, true, ""},
                                               {"peak memory", memory_scale_.unit, true, "of the fullest device"},
                                               {"less than the next", "%", true, ""}});
    for (const auto& group : rankings_) {
      const SweepCell& best = cells_[group.front()];
      const bool fits = best.status == CellStatus::Fits;
      std::vector<present::TableCell> row;
      for (const std::size_t axis : axes)
        row.push_back(fits || grid_.separates(axis) ? setting(axis, group.front()) : present::words("–"));
      if (!fits && chosen != axes.end())
        row[chosen - axes.begin()] = present::words(best.has_answer() ? "none fits" : "no answer", present::Tone::Bad);
      if (!grid_.method.empty()) row.push_back(present::words(fits ? best.plan : ""));
      row.push_back(present::number(fits ? time(best) : kNone, 2));
      row.push_back(present::number(fits ? memory(best) : kNone, 1));
      const bool has_next = fits && group.size() > 1 && cells_[group[1]].status == CellStatus::Fits;
      row.push_back(present::number(has_next ? 100 * (1 - time(best) / time(cells_[group[1]])) : kNone, 1));
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  present::Column head_of(std::size_t axis) const { return {grid_.axes[axis].key, "", numeric(axis), ""}; }

  present::TableCell setting(std::size_t axis, std::size_t cell) const {
    present::TableCell result = present::words(values_[cell][axis]);
    if (numeric(axis)) result.value = parse_number(values_[cell][axis]).value;
    return result;
  }

  std::string measured() const { return capital(measure_.name()); }  // "Step time", or "Time per sample"

  double time(const SweepCell& cell) const { return scale_.factor * measure_.of(cell).value_or(kNone); }
  double memory(const SweepCell& cell) const { return memory_scale_.factor * cell.metric("peak_memory_bytes").value_or(kNone); }

  std::string hint(std::size_t i) const {
    const SweepCell& cell = cells_[i];
    std::string text = grid_.title(cell.index);
    if (cell.has_answer())
      text += fmt::format("\n{:.4g} {}, {:.4g} {}", time(cell), scale_.unit, memory(cell), memory_scale_.unit);
    if (!cell.plan.empty()) text += "\n" + cell.plan;
    return cell.reason.empty() ? text : text + fmt::format("\n{}: {}", name_of(cell.status), cell.reason);
  }

  std::vector<present::Figure> figures() const {
    std::size_t fit = 0, large = 0;
    const SweepCell *fastest = nullptr, *smallest = nullptr;
    for (const SweepCell& cell : cells_) {
      large += cell.status == CellStatus::TooLarge;
      if (cell.status != CellStatus::Fits) continue;
      ++fit;
      if (!fastest || time(cell) < time(*fastest)) fastest = &cell;
      if (!smallest || memory(cell) < memory(*smallest)) smallest = &cell;
    }
    std::vector<present::Figure> result = {
        {"cells", std::to_string(cells_.size()),
         fmt::format("{} fit, {} too large, {} without an answer", fit, large, cells_.size() - fit - large),
         present::Tone::Plain}};
    if (cells_.size() < grid_.size())
      result.push_back(
          {"not in this page", std::to_string(grid_.size() - cells_.size()), "cells of other shards", present::Tone::Muted});
    if (rankings_.size() > 1) return result;  // the best of all would be the kindest environment
    if (fastest)
      result.push_back({std::string("least ") + measure_.name(), to_text(Duration(*measure_.of(*fastest))),
                        grid_.title(fastest->index), present::Tone::Good});
    if (smallest)
      result.push_back({"least memory", fmt::format("{:.1f} {}", memory(*smallest), memory_scale_.unit),
                        grid_.title(smallest->index), present::Tone::Plain});
    return result;
  }

  std::vector<std::string> what_varies() const {
    std::vector<std::string> items;
    for (const SweepAxis& axis : grid_.axes) items.push_back(fmt::format("{}: {}", axis.key, fmt::join(axis.values, ", ")));
    if (!grid_.sets.empty()) items.push_back(fmt::format("for all cells: {}", fmt::join(grid_.sets, ", ")));
    return items;
  }

  // The axis whose values colours stand for: the schedule if it varies, else the first with few values.
  std::optional<std::size_t> coloured() const {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < grid_.axes.size(); ++i) {
      const std::size_t count = grid_.axes[i].values.size();
      if (count < 2 || count > 8) continue;
      if (grid_.axes[i].key.rfind("schedule", 0) == 0) return i;
      if (!first) first = i;
    }
    return first;
  }

  int place(std::size_t axis, std::size_t cell) const {
    const auto& values = grid_.axes[axis].values;
    return static_cast<int>(std::find(values.begin(), values.end(), values_[cell][axis]) - values.begin());
  }

  present::Scatter pareto() {
    present::Scatter plot;
    const auto axis = coloured();
    plot.title = "Each cell" + (axis ? ", by " + grid_.axes[*axis].key : std::string());
    plot.x = {"peak memory of the fullest device, " + memory_scale_.unit, present::AxisKind::Linear};
    plot.y = {fmt::format("{}, {}", measure_.name(), scale_.unit), present::AxisKind::Log};
    plot.front = rankings_.size() == 1;
    double largest = 0;  // of those that fit
    for (const SweepCell& cell : cells_)
      if (cell.status == CellStatus::Fits) largest = std::max(largest, memory(cell));
    if (axis) plot.series = grid_.axes[*axis].values;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const bool too_large = cells_[i].status == CellStatus::TooLarge;
      if (too_large && largest > 0 && memory(cells_[i]) > kBeyond * largest)
        ++beyond_;
      else if (cells_[i].has_answer())
        plot.points.push_back({memory(cells_[i]), time(cells_[i]), axis ? place(*axis, i) : 0, hint(i), too_large});
    }
    return plot;
  }

  // The other axes' values; numbers with their keys.
  std::string others_of(std::size_t axis, std::size_t cell, bool given_only = false) const {
    std::string name;
    for (std::size_t other = 0; other < grid_.axes.size(); ++other) {
      if (other == axis || grid_.axes[other].values.size() < 2 || (given_only && !grid_.separates(other))) continue;
      if (!name.empty()) name += ", ";
      if (numeric(other)) name.append(grid_.axes[other].key).append("=");
      name += values_[cell][other];
    }
    return name;
  }

  std::string title_of(std::size_t axis, bool best) const {
    return fmt::format("{} by {}{}", measured(), grid_.axes[axis].key,
                       !best                  ? ""
                       : rankings_.size() > 1 ? ", the best choice that fits in each environment"
                                              : ", best over the other keys among cells that fit");
  }

  // A line per combination of the other axes' values, or the best over all of them.
  present::Lines lines(std::size_t axis) const {
    present::Lines plot;
    const SweepAxis& own = grid_.axes[axis];
    std::vector<double> places;  // numbers stand where they are
    for (const std::string& value : own.values) places.push_back(*parse_number(value).value);
    const auto [low, high] = std::minmax_element(places.begin(), places.end());
    plot.x = {own.key, *low > 0 && *high >= 8 * *low ? present::AxisKind::Log : present::AxisKind::Linear, places};
    const std::size_t count = places.size(), others = grid_.size() / count;
    const bool best = others > kMostLines;
    plot.title = title_of(axis, best);
    plot.y = {fmt::format("{}, {}", measure_.name(), scale_.unit), present::AxisKind::Linear};
    std::map<std::string, std::size_t> line_of;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const std::string name = others_of(axis, i, best);
      const auto [line, is_new] = line_of.emplace(name, plot.lines.size());
      if (is_new) plot.lines.push_back({name, std::vector<present::Point>(count, {kNone, kNone, 0, "", false})});
      const auto at = static_cast<std::size_t>(place(axis, i));
      const SweepCell& cell = cells_[i];
      present::Point& point = plot.lines[line->second].points[at];
      if (!cell.has_answer() || (best && (cell.status != CellStatus::Fits || time(cell) >= point.y))) continue;  // a gap
      point = {places[at], time(cell), 0, hint(i), cell.status == CellStatus::TooLarge};
    }
    std::erase_if(plot.lines, [](const present::PlotLine& line) {
      return std::none_of(line.points.begin(), line.points.end(),
                          [](const present::Point& point) { return std::isfinite(point.y); });
    });
    return plot;
  }

  // Bars of the axis' values, from the best on; where there are few, once for each combination of the others.
  present::Bars bars(std::size_t axis) const {
    present::Bars plot;
    const std::size_t others = grid_.size() / grid_.axes[axis].values.size();
    const bool best = others == 1 || grid_.size() > kMostBars;
    plot.title = title_of(axis, best && others > 1);
    plot.value = {fmt::format("{}, {}", measure_.name(), scale_.unit), present::AxisKind::FromZero};
    std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;  // of cells, from the best group on
    std::map<std::string, std::size_t> group_of;
    for (const std::size_t i : order_) {
      const auto [group, is_new] = group_of.emplace(others_of(axis, i, best), groups.size());
      if (is_new) groups.push_back({group->first, {}});
      groups[group->second].second.push_back(i);
    }
    for (const auto& [name, group] : groups) {
      if (!best && !cells_[group.front()].has_answer()) continue;  // none of the group has one
      if (groups.size() > 1 || !best) plot.bars.push_back({name, {}, ""});
      add_bars(plot, axis, group, best && others > 1);
    }
    return plot;
  }

  // The first cell of each value, because `group` is ordered. With `only_fitting` a value of which none fits is named without a
  // bar.
  void add_bars(present::Bars& plot, std::size_t axis, const std::vector<std::size_t>& group, bool only_fitting) const {
    std::vector<bool> seen(grid_.axes[axis].values.size(), false);
    double least = kNone;
    for (const std::size_t i : group) {
      const auto value = static_cast<std::size_t>(place(axis, i));
      if (seen[value]) continue;
      seen[value] = true;
      const SweepCell& cell = cells_[i];
      present::Bar bar{grid_.axes[axis].values[value], {0}, hint(i)};
      const auto seconds = measure_.of(cell);
      if (!seconds || (only_fitting && cell.status != CellStatus::Fits)) {
        bar.label = only_fitting && cell.has_answer() ? "none fits" : name_of(cell.status);
      } else {
        bar.values = {time(cell)};
        bar.label = to_text(Duration(*seconds));
        bar.hollow = cell.status != CellStatus::Fits;
        if (const double more = 100 * (*seconds / least - 1); more >= 0.05) bar.label += fmt::format(", +{:.1f} %", more);
        if (!(least > 0)) least = *seconds;
        if (bar.hollow) bar.label += fmt::format(", {}", name_of(cell.status));
      }
      plot.bars.push_back(std::move(bar));
    }
  }

  present::Table table() const {
    present::Table table;
    for (std::size_t axis = 0; axis < grid_.axes.size(); ++axis) table.columns.push_back(head_of(axis));
    table.columns.insert(table.columns.end(), {{"verdict", "", false, ""}, {"step time", step_scale_.unit, true, ""}});
    if (measure_.per_sample) table.columns.push_back({"a sample", scale_.unit, true, "step time by samples in a step"});
    table.columns.insert(table.columns.end(), {{"samples", "1/s", true, ""},
                                               {"MFU", "%", true, "of the dense peak of all devices"},
                                               {"bubble", "%", true, "share of the step that compute lanes are idle"},
                                               {"peak memory", memory_scale_.unit, true, "of the fullest device"},
                                               {"where the step goes", "", false, "mean over devices"}});
    if (!grid_.method.empty()) table.columns.push_back({"plan", "", false, ""});
    table.parts = {"compute", "exposed communication", "idle, nothing in flight"};
    table.colours = {0, 1, present::kIdleColour};
    for (const std::size_t i : order_) table.rows.push_back(row(i));
    return table;
  }

  bool numeric(std::size_t axis) const {
    const std::vector<std::string>& values = grid_.axes[axis].values;
    return std::all_of(values.begin(), values.end(), [](const auto& value) { return parse_number(value).value.has_value(); });
  }

  std::vector<present::TableCell> row(std::size_t i) const {
    const SweepCell& cell = cells_[i];
    const auto metric = [&](const char* name) { return cell.metric(name).value_or(kNone); };
    const present::Tone tone = cell.status == CellStatus::TooLarge ? present::Tone::Bad : present::Tone::Plain;
    std::vector<present::TableCell> row;
    for (std::size_t axis = 0; axis < grid_.axes.size(); ++axis) row.push_back(setting(axis, i));
    row.push_back(verdict(i));
    row.push_back(present::number(step_scale_.factor * metric("step_time_s"), 2));
    if (measure_.per_sample) row.push_back(present::number(time(cell), 2));
    row.push_back(present::number(metric("samples_per_s"), 2));
    row.push_back(present::number(metric("mfu") > 0 ? 100 * metric("mfu") : kNone, 1));
    row.push_back(present::number(100 * metric("bubble_step"), 1));
    row.push_back(present::number(memory(cell), 1, tone));
    row.push_back(where_it_goes(cell));
    if (!grid_.method.empty()) row.push_back(present::words(cell.plan));
    return row;
  }

  present::TableCell verdict(std::size_t i) const {
    const std::string& text = verdicts_.of_cell[i];
    if (cells_[i].status == CellStatus::Fits)
      return text.empty() ? present::words("fits", present::Tone::Muted) : present::words(text, present::Tone::Good);
    present::TableCell result = present::words(text, present::Tone::Bad);
    result.hint = cells_[i].reason;
    return result;
  }

  static present::TableCell where_it_goes(const SweepCell& cell) {
    const auto step = cell.metric("step_time_s");
    if (!step) return present::words("");
    const double compute = cell.metric("compute_s").value_or(0), exposed = cell.metric("exposed_communication_s").value_or(0);
    const double share = *step > 0 ? 100 * compute / *step : 0;
    const std::vector<double> parts = {compute, exposed, std::max(0.0, *step - compute - exposed)};
    return {fmt::format("compute {:.1f} % of the step", share), share, present::Tone::Plain, "", parts};
  }

  const SweepGrid& grid_;
  const std::vector<SweepCell>& cells_;
  std::string name_;                              // of the scenario's file
  std::vector<std::vector<std::string>> values_;  // of each cell, by axis
  SweepMeasure measure_;
  std::vector<std::vector<std::size_t>> rankings_;
  std::vector<std::size_t> order_;  // all of them
  std::size_t beyond_ = 0;          // cells that the plot against memory leaves out
  SweepVerdicts verdicts_;
  present::TimeScale scale_{1, "s"}, step_scale_{1, "s"};  // of the measure, of step times
  MemoryScale memory_scale_;
};

}  // namespace

std::string to_page(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard) {
  return SweepPage(grid, cells).run(shard);
}

}  // namespace panpipe::study
