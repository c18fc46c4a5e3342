// A comparison as the table people read, and as a JSON document.
#include <fmt/format.h>

#include <cmath>

#include "base/text/quantity_text.hpp"
#include "base/text/json_text.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "study/compare/compare.hpp"

namespace panpipe {
namespace {

std::string time_text(double time) { return time == 0 ? "0" : to_text(Duration(time)); }

// A name of a foreign document: the bare number.
std::string metric_text(const std::string& name, const std::optional<double>& value) {
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
      return fmt::format("{:.1f} %", 100 * *value);
    case MetricUnit::Flop:
      break;
  }
  return fmt::format("{:.4g}", *value);
}

std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string difference_text(const ComparedMetric& metric) {
  if (!metric.a || !metric.b) return "";
  if (metric.relative) return signed_percent(*metric.relative);
  return metric.difference == 0 ? "0" : "from 0";
}

std::string verdict_text(const ComparedMetric& metric) {
  if (!metric.tolerance) return "";
  const Tolerance& tolerance = *metric.tolerance;
  const std::string limit =
      tolerance.relative ? fmt::format("{:g} %", 100 * tolerance.value) : fmt::format("{:g}", tolerance.value);
  if (!metric.a || !metric.b) return "broken: one result has no such metric";
  return (metric.ok ? "within " : "broken: more than ") + limit;
}

std::string ratio_text(const Comparison& comparison, double a, double b) {
  const double reference = comparison.reference_is_b ? b : a, other = comparison.reference_is_b ? a : b;
  return reference > 0 ? signed_percent(other / reference - 1) : "";
}

std::string class_name(const ComparedClass& row) {
  return row.stage >= 0 ? fmt::format("{} of stage {}", row.name, row.stage) : row.name;
}

std::string metrics_table(const Comparison& comparison) {
  std::string out = fmt::format("{:<26}{:>12}{:>12}{:>12}\n", "", "A", "B", "difference");
  for (const ComparedMetric& metric : comparison.metrics) {
    std::string line = fmt::format("{:<26}{:>12}{:>12}{:>12}   {}", metric.name, metric_text(metric.name, metric.a),
                                   metric_text(metric.name, metric.b), difference_text(metric), verdict_text(metric));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string classes_table(const Comparison& comparison) {
  std::string out =
      fmt::format("\n{:<26}{:>12}{:>12}{:>12}{:>9}{:>14}\n", "actions: mean time", "A", "B", "difference", "count", "in all");
  for (const ComparedClass& row : comparison.classes) {
    const std::string count =
        row.count_a == row.count_b ? std::to_string(row.count_a) : fmt::format("{}/{}", row.count_a, row.count_b);
    out += fmt::format("{:<26}{:>12}{:>12}{:>12}{:>9}{:>14}\n", class_name(row), row.count_a ? time_text(row.mean_a) : "-",
                       row.count_b ? time_text(row.mean_b) : "-",
                       row.count_a && row.count_b ? ratio_text(comparison, row.mean_a, row.mean_b) : "", count,
                       fmt::format("{}{}", row.total_difference > 0 ? "+" : "", time_text(row.total_difference)));
  }
  return out;
}

std::string worst_table(const Comparison& comparison) {
  std::string out = fmt::format("\n{:<26}{:>12}{:>12}{:>12}\n", "worst actions", "A", "B", "difference");
  for (const ComparedAction& action : comparison.worst)
    out += fmt::format("{:<26}{:>12}{:>12}{:>12}\n", fmt::format("{} on device {}", action.action, action.device),
                       time_text(action.a), time_text(action.b), ratio_text(comparison, action.a, action.b));
  return out;
}

std::string waits_table(const Comparison& comparison) {
  std::string out = fmt::format("\n{:<48}{:>12}{:>12}   of it in transit\n", "idle: waiting for", "A", "B");
  for (const ComparedWait& wait : comparison.waits) {
    const std::string what = fmt::format("device {}: {}{}", wait.device, wait.reason,
                                         wait.peer >= 0 ? fmt::format(", from device {}", wait.peer) : std::string());
    std::string line = fmt::format("{:<48}{:>12}{:>12}", what, time_text(wait.a), time_text(wait.b));
    if (wait.transit_a + wait.transit_b > 0)
      line += fmt::format("   {}, {}", time_text(wait.transit_a), time_text(wait.transit_b));
    out += line + "\n";
  }
  return out;
}

std::string optional_number(const std::optional<double>& value) { return value ? json::number(*value) : "null"; }

template <class Items, class Write>
std::string list(const char* key, const Items& items, Write write) {
  std::string out = fmt::format(",\n  \"{}\": [", key);
  bool first = true;
  for (const auto& item : items) {
    out += (first ? "\n    {" : ",\n    {") + write(item) + "}";
    first = false;
  }
  return out + (first ? "]" : "\n  ]");
}

std::string document_json(const ResultDocument& document) {
  return fmt::format("{{\"path\": {}, \"kind\": \"{}\", \"scenario\": {}}}", json::text(document.path), name_of(document.kind),
                     json::text(document.scenario));
}

}  // namespace

std::string to_table(const Comparison& comparison) {
  const bool alike = comparison.a->heading == comparison.b->heading;  // then once, in front
  const auto heading = [&](char letter, const ResultDocument& document) {
    std::string text = fmt::format("{}  {:<10} {}{}\n", letter, name_of(document.kind), document.path,
                                   document.scenario.empty() ? "" : "  (" + document.scenario + ")");
    if (!alike)
      for (const std::string& line : document.heading) text += "   " + line + "\n";
    return text;
  };
  std::string out;
  if (alike)
    for (const std::string& line : comparison.a->heading) out += line + "\n";
  out += heading('A', *comparison.a) + heading('B', *comparison.b);
  out += comparison.reference_is_b ? "differences: A against B\n\n" : "differences: B against A\n\n";
  out += metrics_table(comparison);
  if (!comparison.classes.empty()) out += classes_table(comparison) + worst_table(comparison) + waits_table(comparison);
  return out;
}

std::string to_json(const Comparison& comparison) {
  std::string out = "{\n  \"schema\": \"panpipe-comparison/1\",\n  \"a\": " + document_json(*comparison.a) +
                    ",\n  \"b\": " + document_json(*comparison.b);
  out += fmt::format(",\n  \"reference\": \"{}\",\n  \"ok\": {}", comparison.reference_is_b ? "b" : "a",
                     json::boolean(comparison.ok()));
  out += list("metrics", comparison.metrics, [](const ComparedMetric& m) {
    return fmt::format(
        "\"metric\": \"{}\", \"a\": {}, \"b\": {}, \"difference\": {}, \"relative\": {}, \"tolerance\": {}, "
        "\"tolerance_relative\": {}, \"ok\": {}",
        m.name, optional_number(m.a), optional_number(m.b), json::number(m.difference), optional_number(m.relative),
        m.tolerance ? json::number(m.tolerance->value) : "null", json::boolean(m.tolerance && m.tolerance->relative),
        json::boolean(m.ok));
  });
  out += list("actions", comparison.classes, [](const ComparedClass& c) {
    return fmt::format(
        "\"lane\": \"{}\", \"action\": {}, \"stage\": {}, \"count_a\": {}, \"count_b\": {}, \"mean_a_s\": {}, "
        "\"mean_b_s\": {}, \"total_difference_s\": {}",
        name_of(c.lane), json::text(c.name), c.stage, c.count_a, c.count_b, json::number(c.mean_a), json::number(c.mean_b),
        json::number(c.total_difference));
  });
  out += list("worst", comparison.worst, [](const ComparedAction& action) {
    return fmt::format("\"action\": {}, \"device\": {}, \"a_s\": {}, \"b_s\": {}", json::text(action.action), action.device,
                       json::number(action.a), json::number(action.b));
  });
  out += list("idle", comparison.waits, [](const ComparedWait& wait) {
    return fmt::format(
        "\"device\": {}, \"waiting_for\": {}, \"peer\": {}, \"a_s\": {}, \"b_s\": {}, \"transit_a_s\": {}, "
        "\"transit_b_s\": {}",
        wait.device, json::text(wait.reason), wait.peer, json::number(wait.a), json::number(wait.b), json::number(wait.transit_a),
        json::number(wait.transit_b));
  });
  return out + "\n}\n";
}

}  // namespace panpipe
