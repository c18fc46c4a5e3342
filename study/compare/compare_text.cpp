// A comparison as the table people read, and as a JSON document.
#include <fmt/format.h>

#include <cmath>

#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "study/compare/compare.hpp"

namespace panpipe::study {
namespace {

std::string time_text(double time) { return time == 0 ? "0" : to_text(Duration(time)); }

// A name of a foreign document: the bare number.
std::string metric_text(const std::string& name, const std::optional<double>& value, const std::string& currency) {
  if (!value) return "-";
  const Metric* metric = find_metric(name);
  switch (metric ? metric->unit : MetricUnit::Flop) {
    case MetricUnit::Truth:
      return *value != 0 ? "yes" : "no";
    case MetricUnit::Byte:
      return to_text(Bytes(static_cast<std::int64_t>(std::llround(*value))));
    case MetricUnit::PerSecond:
      return fmt::format("{:.4g} /s", *value);
    case MetricUnit::Second:
      return time_text(*value);
    case MetricUnit::Share:
      return percent(*value);
    case MetricUnit::Count:
      return fmt::format("{:.0f}", *value);
    case MetricUnit::Hour:
      return count_text(*value) + " h";
    case MetricUnit::Energy:
      return energy_text(*value);
    case MetricUnit::Mass:
      return fmt::format("{:.4g} kg", *value);
    case MetricUnit::Money:
      return money_text(*value, currency);
    case MetricUnit::Flop:
      break;
  }
  return fmt::format("{:.4g}", *value);
}

std::string difference_text(const ComparedMetric& metric) {
  if (!metric.a || !metric.b) return "";
  if (metric.two_currencies) return "two currencies";
  if (metric.relative) return relative_text(*metric.relative);
  return metric.difference == 0 ? "0" : "from 0";
}

std::string verdict_text(const ComparedMetric& metric) {
  if (!metric.tolerance) return "";
  const Tolerance& tolerance = *metric.tolerance;
  const std::string limit =
      tolerance.relative ? fmt::format("{:g} %", 100 * tolerance.value) : fmt::format("{:g}", tolerance.value);
  if (!metric.a || !metric.b) return "broken: one result has no such metric";
  if (metric.two_currencies) return "broken: two currencies";
  return (metric.ok ? "within " : "broken: more than ") + limit;
}

std::string ratio_text(const Comparison& comparison, double a, double b) {
  const double reference = comparison.reference_is_b ? b : a, other = comparison.reference_is_b ? a : b;
  return reference > 0 ? relative_text(other / reference - 1) : "";
}

std::string class_name(const ComparedClass& row) {
  return row.stage >= 0 ? fmt::format("{} of stage {}", row.name, row.stage) : row.name;
}

// The tables stand below each other: their figures begin in the same columns.
TextTable compared(const char* what, std::vector<TextColumn> more = {}) {
  std::vector<TextColumn> columns = {TextColumn(what).least(26)};
  for (const char* head : {"A", "B", "difference"}) columns.push_back(TextColumn(head).least(10));
  columns.insert(columns.end(), more.begin(), more.end());
  return TextTable(std::move(columns), 0);
}

std::string metrics_table(const Comparison& comparison) {
  TextTable table = compared("<", {"<"});
  for (const ComparedMetric& metric : comparison.metrics)
    table.row({metric.name, metric_text(metric.name, metric.a, comparison.a->currency),
               metric_text(metric.name, metric.b, comparison.b->currency), difference_text(metric), verdict_text(metric)});
  return table.text();
}

std::string classes_table(const Comparison& comparison) {
  TextTable table = compared("<actions: mean time", {"count", "in all"});
  for (const ComparedClass& row : comparison.classes)
    table.row({class_name(row), row.count_a ? time_text(row.mean_a) : "-", row.count_b ? time_text(row.mean_b) : "-",
               row.count_a && row.count_b ? ratio_text(comparison, row.mean_a, row.mean_b) : "",
               row.count_a == row.count_b ? std::to_string(row.count_a) : fmt::format("{}/{}", row.count_a, row.count_b),
               fmt::format("{}{}", row.total_difference > 0 ? "+" : "", time_text(row.total_difference))});
  return table.text();
}

std::string worst_table(const Comparison& comparison) {
  TextTable table = compared("<worst actions");
  for (const ComparedAction& action : comparison.worst)
    table.row({fmt::format("{} on device {}", action.action, action.device), time_text(action.a), time_text(action.b),
               ratio_text(comparison, action.a, action.b)});
  return table.text();
}

std::string waits_table(const Comparison& comparison) {
  TextTable table({"<idle: waiting for", "A", "B", "<of it in transit"}, 0);
  for (const ComparedWait& wait : comparison.waits)
    table.row({fmt::format("device {}: {}{}", wait.device, wait.reason,
                           wait.peer >= 0 ? fmt::format(", from device {}", wait.peer) : std::string()),
               time_text(wait.a), time_text(wait.b),
               wait.transit_a + wait.transit_b > 0 ? fmt::format("{}, {}", time_text(wait.transit_a), time_text(wait.transit_b))
                                                   : std::string()});
  return table.text();
}

void write_document(JsonWriter& out, std::string_view name, const present::ResultDocument& document) {
  out.object(name).field("path", document.path).field("kind", name_of(document.kind)).field("scenario", document.scenario);
  if (document.evidence) write_evidence(out, *document.evidence);
  out.end();
}

// How sure the prediction is, in the words of `estimate`.
std::string sureness(const present::ResultDocument& document) {
  if (!document.evidence) return "";
  const auto figure = [&](std::string_view name) { return document.metric(name).value_or(0); };
  return sureness_text(figure("step_time_p10_s"), figure("step_time_p50_s"), figure("step_time_p90_s"), *document.evidence);
}

}  // namespace

std::string relative_text(double relative) {
  return relative < kFactorFrom ? signed_percent(relative) : fmt::format("{:.4g} times", 1 + relative);
}

std::string to_table(const Comparison& comparison) {
  const bool alike = comparison.a->heading == comparison.b->heading;  // then once, in front
  std::string out;
  if (alike)
    for (const std::string& line : comparison.a->heading) out += line + "\n";
  TextTable results({"<", "<", "<"}, 0);
  for (const auto& [letter, document] : {std::pair("A", comparison.a), std::pair("B", comparison.b)}) {
    results.row({letter, std::string(name_of(document->kind)),
                 document->path + (document->scenario.empty() ? "" : "  (" + document->scenario + ")")});
    if (const std::string sure = sureness(*document); !sure.empty()) results.line("   " + sure);
    if (!alike)
      for (const std::string& line : document->heading) results.line("   " + line);
  }
  out += results.text();
  if (comparison.inside)
    out += fmt::format("the measured step lies {} the interval that holds 80 % of runs\n",
                       *comparison.inside ? "inside" : "outside");
  out += comparison.reference_is_b ? "differences: A against B\n\n" : "differences: B against A\n\n";
  out += metrics_table(comparison);
  if (comparison.classes.empty()) return out;
  for (const auto table : {classes_table, worst_table, waits_table}) out.append("\n").append(table(comparison));
  return out;
}

std::string to_json(const Comparison& comparison) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-comparison/1");
  write_document(out, "a", *comparison.a);
  write_document(out, "b", *comparison.b);
  out.field("reference", comparison.reference_is_b ? "b" : "a").field("inside", comparison.inside).field("ok", comparison.ok());
  out.objects("metrics", comparison.metrics, [&](const ComparedMetric& m) {
    out.field("metric", m.name).field("a", m.a).field("b", m.b);
    out.field("difference", m.two_currencies ? std::nullopt : std::optional(m.difference)).field("relative", m.relative);
    out.field("tolerance", m.tolerance ? std::optional(m.tolerance->value) : std::nullopt);
    out.field("tolerance_relative", m.tolerance && m.tolerance->relative).field("ok", m.ok);
  });
  out.objects("actions", comparison.classes, [&](const ComparedClass& c) {
    out.field("lane", name_of(c.lane)).field("action", c.name).field("stage", c.stage).field("count_a", c.count_a);
    out.field("count_b", c.count_b).field("mean_a_s", c.mean_a).field("mean_b_s", c.mean_b);
    out.field("total_difference_s", c.total_difference);
  });
  out.objects("worst", comparison.worst, [&](const ComparedAction& a) {
    out.field("action", a.action).field("device", a.device).field("a_s", a.a).field("b_s", a.b);
  });
  out.objects("idle", comparison.waits, [&](const ComparedWait& w) {
    out.field("device", w.device).field("waiting_for", w.reason).field("peer", w.peer).field("a_s", w.a).field("b_s", w.b);
    out.field("transit_a_s", w.transit_a).field("transit_b_s", w.transit_b);
  });
  return out.end().finish() + "\n";
}

}  // namespace panpipe::study
