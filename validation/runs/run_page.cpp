// The answer of `panpipe validate` as one self-contained page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "present/page/page.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::validation {
namespace {

constexpr double kBand = 0.10;   // drawn around measured = predicted
constexpr double kLarge = 0.10;  // errors shown as bad

present::Scatter scatter(const RunReport& report, bool memory) {
  present::Scatter plot;
  plot.title = memory ? "Peak memory" : "Step time";
  const std::string unit = memory ? "GiB" : "s";
  plot.x = {"measured, " + unit, present::AxisKind::Log};
  plot.y = {"predicted, " + unit, present::AxisKind::Log};
  plot.band = kBand;
  for (const auto& entry : report.groups.at("source")) plot.series.push_back(entry.first);
  for (const RunPrediction& run : report.runs) {
    const std::optional<double> error = memory ? run.peak_error() : run.error();
    if (!error) continue;
    present::Point point;
    point.x = memory ? *run.row.peak_gib : *run.row.step_s;
    point.y = memory ? run.predicted_peak_gib : run.predicted_s;
    const auto source = std::find(plot.series.begin(), plot.series.end(), run.row.source.empty() ? "not stated" : run.row.source);
    point.series = static_cast<int>(source - plot.series.begin());
    point.hint = fmt::format("{}: {:.4g} {} predicted, {:.4g} {} measured, {}", run.row.id, point.y, unit, point.x, unit,
                             signed_percent(*error));
    plot.points.push_back(point);
  }
  return plot;
}

present::Table group_table(const std::string& kind, const std::map<std::string, Summary>& groups) {
  present::Table table;
  table.caption = kind;
  table.columns = {{kind, "", false, ""}};
  for (const GroupFigure& figure : group_figures())
    table.columns.push_back({figure.head, figure.digits > 0 ? "%" : "", true, figure.hint});
  for (const auto& [name, summary] : groups) {
    table.rows.push_back({present::words(name)});
    for (const GroupFigure& figure : group_figures())
      table.rows.back().push_back(present::number(figure.shown(summary), figure.digits));
  }
  return table;
}

present::Table page_rows(const RunReport& report) {
  present::Table table;
  table.columns = {{"row", "", false, ""},
                   {"error", "%", true, "predicted / measured - 1"},
                   {"measured", "s", true, ""},
                   {"predicted", "s", true, ""},
                   {"p10", "s", true, "one run in ten is expected below"},
                   {"p90", "s", true, "one run in ten is expected above"},
                   {"where the predicted time goes", "", false, "on the device that computes longest"},
                   {"peak measured", "GiB", true, "as printed; GB read as GiB"},
                   {"peak predicted", "GiB", true, ""},
                   {"GPU", "", false, ""},
                   {"parallelism", "", false, ""},
                   {"assumed", "", false, "what the row leaves open"}};
  for (const StepTerm& term : kStepTerms) table.parts.emplace_back(term.words);
  for (const RunPrediction* run : worst_first(report)) {
    present::TableCell bar;
    for (const StepTerm& term : kStepTerms) {
      bar.parts.push_back(std::max(0.0, run->terms.*term.of));
      bar.hint += fmt::format("{}{}: {}", bar.hint.empty() ? "" : ", ", term.words, to_text(Duration(bar.parts.back())));
    }
    present::TableCell id = present::words(run->row.id);
    id.hint = run->row.source + ", " + run->row.where;
    table.rows.push_back(
        {id,
         present::number(100 * *run->error(), 1, std::abs(*run->error()) > kLarge ? present::Tone::Bad : present::Tone::Plain),
         present::number(*run->row.step_s, 3), present::number(run->predicted_s, 3),
         present::number(run->inside() ? run->predicted_p10_s : std::nan(""), 3),
         present::number(run->inside() ? run->predicted_p90_s : std::nan(""), 3,
                         run->inside() == false ? present::Tone::Bad : present::Tone::Plain),
         bar, present::number(run->row.peak_gib.value_or(std::nan("")), 1), present::number(run->predicted_peak_gib, 1),
         present::words(run->row.gpu), present::words(parallelism_of(run->row)),
         present::words(fmt::format("{}", fmt::join(run->assumed, "; ")), present::Tone::Muted)});
  }
  return table;
}

}  // namespace

std::string to_page(const RunReport& report, const std::string& command) {
  const ErrorSummary& e = report.summary.errors;
  present::Page out("Predicted against measured training steps", command);
  out.figures({{"mean error", percent(e.mean), fmt::format("over {} runs", e.rows)},
               {"median", percent(e.median), ""},
               {"bias", signed_percent(e.bias), ""},
               {"inside", e.judged > 0 ? percent(e.inside) : "-", "of the intervals that should hold 80 %"},
               {"worst", percent(e.worst), e.worst_id},
               {"pairs in order", percent(e.pairs_ordered), "measured more than 5 % apart"},
               {"regret", fmt::format("{:.2f} %", 100 * report.summary.choice.mean_regret), "of choosing by prediction, mean"}});
  if (!report.checks.empty()) {
    out.heading("Tolerances");
    std::vector<std::string> lines;
    for (const ToleranceCheck& check : report.checks)
      lines.push_back(fmt::format("{} {}: {:.2f} %", check.ok ? "kept:" : "broken:", check.tolerance.text, 100 * check.value));
    out.list(lines);
  }
  out.heading("Measured and predicted").note("The band is 10 % to both sides of equality.");
  std::vector<std::string> plots = {to_html(scatter(report, false))};
  if (report.summary.memory.rows > 0) plots.push_back(to_html(scatter(report, true)));
  out.side_by_side(plots);
  out.heading("Errors by group");
  for (const auto& [kind, names] : report.groups) out.add(group_table(kind, names));
  out.heading("Rows").note("Worst first; a head sorts. Bars: where the predicted time goes on the device that computes longest.");
  out.add(page_rows(report));
  std::vector<std::string> skipped;
  for (const RunPrediction& run : report.runs)
    if (!run.predicted()) skipped.push_back(run.row.id + ": " + run.skipped);
  if (!skipped.empty()) out.heading("Skipped").list(skipped);
  return out.to_html();
}

}  // namespace panpipe::validation
