#include "validation/runs/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/json_text.hpp"

namespace panpipe {
namespace {

struct Figure {
  const char* name;
  bool at_least;  // a share to reach; else an error to stay under
  double (*of)(const Summary& summary);
};

constexpr Figure kFigures[] = {
    {"mean", false, [](const Summary& s) { return s.errors.mean; }},
    {"median", false, [](const Summary& s) { return s.errors.median; }},
    {"p90", false, [](const Summary& s) { return s.errors.p90; }},
    {"worst", false, [](const Summary& s) { return s.errors.worst; }},
    {"bias", false, [](const Summary& s) { return std::abs(s.errors.bias); }},
    {"pairs_ordered", true, [](const Summary& s) { return s.errors.pairs_ordered; }},
    {"choice_pairs_ordered", true, [](const Summary& s) { return s.choice.pairs_ordered; }},
    {"regret", false, [](const Summary& s) { return s.choice.mean_regret; }},
    {"memory_mean", false, [](const Summary& s) { return s.memory.mean; }},
    {"memory_worst", false, [](const Summary& s) { return s.memory.worst; }},
};

const Figure* find_figure(const std::string& name) {
  for (const Figure& figure : kFigures)
    if (name == figure.name) return &figure;
  return nullptr;
}

std::string quoted(const std::string& text) { return json::text(text); }

template <class T>
std::string or_null(const std::optional<T>& value) {
  return value ? json::number(static_cast<double>(*value)) : "null";
}

std::string errors_json(const ErrorSummary& e) {
  return fmt::format(
      "\"rows\": {}, \"mean_absolute_error\": {}, \"median_absolute_error\": {}, \"p90_absolute_error\": {}, \"worst\": {}, "
      "\"worst_id\": {}, \"bias\": {}, \"pairs_ordered\": {}, \"pairs\": {}, \"skipped\": {}",
      e.rows, json::number(e.mean), json::number(e.median), json::number(e.p90), json::number(e.worst), quoted(e.worst_id),
      json::number(e.bias), json::number(e.pairs_ordered), e.pairs, e.skipped);
}

std::string summary_json(const Summary& s) {
  return fmt::format(
      "{{{}, \"choice\": {{\"groups\": {}, \"best_found\": {}, \"pairs_ordered\": {}, \"pairs\": {}, \"mean_regret\": {}, "
      "\"worst_regret\": {}}}, \"memory\": {{\"rows\": {}, \"mean_absolute_error\": {}, \"median_absolute_error\": {}, "
      "\"worst\": "
      "{}, \"worst_id\": {}, \"bias\": {}}}}}",
      errors_json(s.errors), s.choice.groups, s.choice.best_found, json::number(s.choice.pairs_ordered), s.choice.pairs,
      json::number(s.choice.mean_regret), json::number(s.choice.worst_regret), s.memory.rows, json::number(s.memory.mean),
      json::number(s.memory.median), json::number(s.memory.worst), quoted(s.memory.worst_id), json::number(s.memory.bias));
}

std::string terms_json(const StepTerms& t) {
  return fmt::format(
      "{{\"products_s\": {}, \"traffic_s\": {}, \"tensor_s\": {}, \"host_s\": {}, \"optimizer_s\": {}, \"communication_s\": {}, "
      "\"idle_s\": {}}}",
      json::number(t.products), json::number(t.traffic), json::number(t.tensor), json::number(t.host), json::number(t.optimizer),
      json::number(t.communication), json::number(t.idle));
}

std::string row_json(const RunPrediction& run) {
  const RunRow& r = run.row;
  std::string assumed;
  for (const std::string& text : run.assumed) assumed += (assumed.empty() ? "" : ", ") + quoted(text);
  const auto when = [&](double value) { return run.predicted() ? json::number(value) : std::string("null"); };
  return fmt::format(
      "{{\"id\": {}, \"source\": {}, \"framework\": {}, \"gpu\": {}, \"parallelism\": {}, \"measured_s\": {}, \"predicted_s\": "
      "{}, "
      "\"relative_error\": {}, \"measured_peak_gib\": {}, \"predicted_peak_gib\": {}, \"relative_peak_error\": {}, \"assumed\": "
      "[{}], \"skipped\": {}, \"terms\": {}}}",
      quoted(r.id), quoted(r.source), quoted(r.framework), quoted(r.gpu), quoted(parallelism_of(r)), or_null(r.step_s),
      when(run.predicted_s), or_null(run.error()), or_null(r.peak_gib), when(run.predicted_peak_gib), or_null(run.peak_error()),
      assumed, run.predicted() ? "null" : quoted(run.skipped), run.predicted() ? terms_json(run.terms) : "null");
}

std::string hundredths(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string group_line(const std::string& name, const Summary& s) {
  const ErrorSummary& e = s.errors;
  if (e.rows == 0) return fmt::format("  {:<24}{:>6}\n", name, 0);
  std::string line = fmt::format("  {:<24}{:>6}{:>7}{:>8}{:>7}{:>7}{:>7}{:>8}", name, e.rows, hundredths(e.mean),
                                 hundredths(e.median), hundredths(e.p90), hundredths(e.worst),
                                 fmt::format("{:+.1f}", 100 * e.bias), e.pairs > 0 ? hundredths(e.pairs_ordered) : "-");
  line += s.choice.groups > 0 ? fmt::format("{:>8}{:>8}", s.choice.pairs > 0 ? hundredths(s.choice.pairs_ordered) : "-",
                                            fmt::format("{:.2f}", 100 * s.choice.mean_regret))
                              : fmt::format("{:>8}{:>8}", "-", "-");
  line += s.memory.rows > 0 ? fmt::format("{:>8}", hundredths(s.memory.mean)) : fmt::format("{:>8}", "-");
  return line + "\n";
}

std::string rows_table(const RunReport& report, std::size_t most) {
  std::vector<const RunPrediction*> rows;
  std::size_t longest = 3;
  for (const RunPrediction& run : report.runs)
    if (run.error()) rows.push_back(&run);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return std::abs(*a->error()) > std::abs(*b->error()); });
  const std::size_t shown = most == 0 ? rows.size() : std::min(most, rows.size());
  for (std::size_t i = 0; i < shown; ++i) longest = std::max(longest, rows[i]->row.id.size());
  std::string out = fmt::format("{:<{}}  {:>10}{:>11}{:>9}{:>10}{:>10}\n", "row", longest, "measured", "predicted", "error",
                                "peak GiB", "predicted");
  for (std::size_t i = 0; i < shown; ++i) {
    const RunPrediction& run = *rows[i];
    out += fmt::format("{:<{}}  {:>10}{:>11}{:>9}{:>10}{:>10}\n", run.row.id, longest, to_text(Duration(*run.row.step_s)),
                       to_text(Duration(run.predicted_s)), fmt::format("{:+.1f} %", 100 * *run.error()),
                       run.row.peak_gib ? fmt::format("{:.1f}", *run.row.peak_gib) : "-",
                       fmt::format("{:.1f}", run.predicted_peak_gib));
  }
  if (shown < rows.size()) out += fmt::format("... and {} rows with smaller errors (--all shows them)\n", rows.size() - shown);
  return out;
}

std::string skipped_text(const RunReport& report) {
  std::string out;
  for (const RunPrediction& run : report.runs)
    if (!run.predicted()) out += fmt::format("  {}: {}\n", run.row.id, run.skipped);
  return out.empty() ? out : fmt::format("\nskipped\n{}", out);
}

}  // namespace

RunTolerance parse_run_tolerance(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError(fmt::format("--tolerance {}: expected FIGURE=LIMIT, for example mean=5%", text));
  RunTolerance tolerance;
  tolerance.text = text;
  tolerance.figure = text.substr(0, equals);
  if (const std::size_t dot = tolerance.figure.rfind('.'); dot != std::string::npos) {
    tolerance.source = tolerance.figure.substr(0, dot);
    tolerance.figure = tolerance.figure.substr(dot + 1);
  }
  std::string limit = text.substr(equals + 1);
  if (!limit.empty() && limit.back() == '%') {  // "5%" as well as "5 %"
    limit.pop_back();
    while (!limit.empty() && limit.back() == ' ') limit.pop_back();
    limit = fmt::format("{} %", limit);
  }
  const Parsed<double> parsed = limit.find('%') != std::string::npos ? parse_fraction(limit) : parse_number(limit);
  if (!parsed.value) throw InputError(fmt::format("--tolerance {}: {}", text, parsed.problem));
  tolerance.limit = *parsed.value;
  if (limit.find('%') == std::string::npos && tolerance.limit > 1)  // every figure is a share
    throw InputError(
        fmt::format("--tolerance {}: {} is {:g} %; write {}% for that many per cent", text, limit, 100 * tolerance.limit, limit));
  if (find_figure(tolerance.figure) == nullptr) {
    std::vector<std::string> names;
    std::string list;
    for (const Figure& figure : kFigures) {
      names.emplace_back(figure.name);
      list += (list.empty() ? "" : ", ") + names.back();
    }
    const auto near = nearest_name(tolerance.figure, names);
    throw InputError(fmt::format("--tolerance {}: there is no figure '{}'{}; there are {}", text, tolerance.figure,
                                 near ? fmt::format(", did you mean '{}'?", *near) : std::string(), list));
  }
  return tolerance;
}

bool RunReport::ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const ToleranceCheck& check) { return check.ok; });
}

RunReport make_run_report(std::vector<RunPrediction> runs, const std::vector<RunTolerance>& tolerances) {
  RunReport report;
  report.runs = std::move(runs);
  report.summary = summarize(report.runs);
  report.groups = summarize_groups(report.runs);
  for (const RunTolerance& tolerance : tolerances) {
    const Summary* summary = &report.summary;
    if (!tolerance.source.empty()) {
      const auto found = report.groups["source"].find(tolerance.source);
      if (found == report.groups["source"].end())
        throw InputError(fmt::format("--tolerance {}: no row has the source '{}'", tolerance.text, tolerance.source));
      summary = &found->second;
    }
    const Figure& figure = *find_figure(tolerance.figure);
    ToleranceCheck check{tolerance, figure.of(*summary), true};
    check.ok = figure.at_least ? check.value >= tolerance.limit : check.value <= tolerance.limit;
    report.checks.push_back(check);
  }
  return report;
}

std::string to_table(const RunReport& report, std::size_t most) {
  std::string out = rows_table(report, most) + skipped_text(report);
  const std::string heading = fmt::format("  {:<24}{:>6}{:>7}{:>8}{:>7}{:>7}{:>7}{:>8}{:>8}{:>8}{:>8}\n", "", "rows", "mean",
                                          "median", "p90", "worst", "bias", "pairs", "plans", "regret", "memory");
  for (const auto& [kind, names] : report.groups) {
    out += fmt::format("\n{}, errors in %\n{}", kind, heading);
    for (const auto& [name, summary] : names) out += group_line(name, summary);
  }
  out += "\nall, errors in %\n" + heading + group_line("all", report.summary);
  for (const ToleranceCheck& check : report.checks)
    out += fmt::format("{} {}: {:.2f} %\n", check.ok ? "kept:  " : "broken:", check.tolerance.text, 100 * check.value);
  return out;
}

std::string to_json(const RunReport& report) {
  std::string rows, groups, checks;
  for (const RunPrediction& run : report.runs) rows += (rows.empty() ? "\n    " : ",\n    ") + row_json(run);
  for (const auto& [kind, names] : report.groups) {
    std::string members;
    for (const auto& [name, summary] : names)
      members += fmt::format("{}\n      {}: {}", members.empty() ? "" : ",", quoted(name), summary_json(summary));
    groups += fmt::format("{}\n    {}: {{{}\n    }}", groups.empty() ? "" : ",", quoted(kind), members);
  }
  for (const ToleranceCheck& check : report.checks)
    checks += fmt::format("{}{{\"tolerance\": {}, \"value\": {}, \"ok\": {}}}", checks.empty() ? "" : ", ",
                          quoted(check.tolerance.text), json::number(check.value), json::boolean(check.ok));
  return fmt::format(
      "{{\n  \"schema\": \"panpipe-validation/1\",\n  \"rows\": [{}\n  ],\n  \"summary\": {},\n  \"groups\": {{{}\n  }},\n"
      "  \"tolerances\": [{}]\n}}\n",
      rows, summary_json(report.summary), groups, checks);
}

}  // namespace panpipe
