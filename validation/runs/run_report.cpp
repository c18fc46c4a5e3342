#include "validation/runs/run_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/option_fault.hpp"
#include "base/text/counted.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"

namespace panpipe::validation {
namespace {

constexpr const char* kTolerance = "tolerance";

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
    {"inside", true, [](const Summary& s) { return s.errors.inside; }},
    {"memory_worst", false, [](const Summary& s) { return s.memory.worst; }},
};

const Figure* find_figure(const std::string& name) {
  for (const Figure& figure : kFigures)
    if (name == figure.name) return &figure;
  return nullptr;
}

void write_errors(JsonWriter& out, const ErrorSummary& e) {
  out.field("rows", e.rows).field("mean_absolute_error", e.mean).field("median_absolute_error", e.median);
  out.field("p90_absolute_error", e.p90).field("worst", e.worst).field("worst_id", e.worst_id).field("bias", e.bias);
  out.field("pairs_ordered", e.pairs_ordered).field("pairs", e.pairs).field("skipped", e.skipped);
  out.field("judged", e.judged).field("share_inside", e.judged > 0 ? std::optional(e.inside) : std::nullopt);
}

void write_summary(JsonWriter& out, const std::string& name, const Summary& s) {
  write_errors(out.object(name), s.errors);
  out.object("choice").field("groups", s.choice.groups).field("best_found", s.choice.best_found);
  out.field("pairs_ordered", s.choice.pairs_ordered).field("pairs", s.choice.pairs);
  out.field("mean_regret", s.choice.mean_regret).field("worst_regret", s.choice.worst_regret).end();
  out.object("memory").field("rows", s.memory.rows).field("mean_absolute_error", s.memory.mean);
  out.field("median_absolute_error", s.memory.median).field("worst", s.memory.worst).field("worst_id", s.memory.worst_id);
  out.field("bias", s.memory.bias).end().end();
}

void write_sensitivity(JsonWriter& out, const Sensitivity& sensitivity) {
  out.object("sensitivity");
  for (std::size_t d = 0; d < kDirections; ++d) out.field(name_of(static_cast<Direction>(d)), sensitivity[d]);
  out.end();
}

void write_row(JsonWriter& out, const RunPrediction& run) {
  const RunRow& r = run.row;
  const auto predicted = [&](double value) { return run.predicted() ? std::optional(value) : std::nullopt; };
  out.field("id", r.id).field("source", r.source).field("framework", r.framework).field("gpu", r.gpu);
  out.field("parallelism", parallelism_of(r)).field("measured_s", r.step_s);
  out.field("predicted_s", predicted(run.predicted_s)).field("relative_error", run.error());
  const auto quantile = [](double seconds) { return seconds > 0 ? std::optional(seconds) : std::nullopt; };
  out.field("given", run.given).field("predicted_by_model_s", predicted(run.by_model_s));
  out.field("predicted_p10_s", quantile(run.predicted_p10_s)).field("predicted_p90_s", quantile(run.predicted_p90_s));
  out.field("inside", run.inside());
  out.field("class", run.predicted() ? std::optional(name_of(run.traits.of)) : std::nullopt);
  out.field("measured_peak_gib", r.peak_gib).field("predicted_peak_gib", predicted(run.predicted_peak_gib));
  out.field("fits", run.predicted() ? std::optional(run.fits) : std::nullopt);
  out.field("relative_peak_error", run.peak_error()).field("assumed", run.assumed);
  if (run.predicted()) {
    out.field("skipped", nullptr).object("terms");
    for (const StepTerm& term : kStepTerms) out.field(term.key, run.terms.*term.of);
    out.end();
    write_sensitivity(out, run.traits.sensitivity);
  } else {
    out.field("skipped", run.skipped).field("terms", nullptr).field("sensitivity", nullptr);
  }
}

void write_judgement(JsonWriter& out, const Judgement& judgement) {
  const auto write = [&](const Verdict& v) {
    out.field("of", v.of).field("given", v.given).field("how", v.given > 0 ? name_of(v.how) : "");
    out.field("sources", v.sources).field("steps", v.steps).field("error", v.error).field("bias", v.bias);
    out.field("inside_50", v.inside_50).field("inside_80", v.inside_80).field("inside_95", v.inside_95);
    out.field("half_width", v.half_width).field("log_score", v.log_score);
  };
  out.object("judgement", JsonLayout::Lines).objects("all", judgement.all, write).objects("classes", judgement.classes, write);
  out.objects("first_sight", judgement.first_sight, write).objects("given", judgement.given, write);
  out.objects("sources", judgement.sources, write).end();
}

double known(bool is_known, double value) { return is_known ? value : std::nan(""); }

// "101.1 ms to 118.9 ms"
std::string interval_text(const RunPrediction& run) {
  if (!run.inside()) return "-";
  return fmt::format("{} to {}", to_text(Duration(run.predicted_p10_s)), to_text(Duration(run.predicted_p90_s)));
}

std::string rows_table(const RunReport& report, std::size_t most) {
  const std::vector<const RunPrediction*> rows = worst_first(report);
  const std::size_t shown = most == 0 ? rows.size() : std::min(most, rows.size());
  TextTable table({"<row", "measured", "predicted", "error", "80 % interval", "peak GiB", "predicted"}, 0);
  for (std::size_t i = 0; i < shown; ++i) {
    const RunPrediction& run = *rows[i];
    table.row({run.row.id, to_text(Duration(*run.row.step_s)), to_text(Duration(run.predicted_s)), signed_percent(*run.error()),
               interval_text(run), run.row.peak_gib ? fmt::format("{:.1f}", *run.row.peak_gib) : "-",
               fmt::format("{:.1f}", run.predicted_peak_gib)});
  }
  if (shown < rows.size()) table.line(fmt::format("... and {} rows with smaller errors (--all shows them)", rows.size() - shown));
  return table.text();
}

std::string skipped_text(const RunReport& report) {
  std::string out;
  for (const RunPrediction& run : report.runs)
    if (!run.predicted()) out += fmt::format("  {}: {}\n", run.row.id, run.skipped);
  return out.empty() ? out : fmt::format("\nskipped\n{}", out);
}

// What the rows themselves contradict or leave open.
std::string doubts_text(const RunReport& report) {
  std::vector<std::string> too_large, no_framework;
  for (const RunPrediction& run : report.runs) {
    if (run.error() && !run.fits) too_large.push_back(run.row.id);
    if (run.predicted() && run.row.framework.empty()) no_framework.push_back(run.row.id);
  }
  const auto listed = [](const std::vector<std::string>& ids) {
    constexpr std::size_t kMost = 5;
    const std::vector<std::string> shown(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, ids.size())));
    return fmt::format("{}{}", fmt::join(shown, ", "), ids.size() > kMost ? ", ..." : "");
  };
  std::string out;
  if (!too_large.empty())
    out += fmt::format("\n{} ran, and {} predicted not to fit: {}\n", counted(too_large.size(), "row"),
                       too_large.size() == 1 ? "is" : "are", listed(too_large));
  if (!no_framework.empty())
    out += fmt::format("\n{} no framework, and {} predicted as Megatron-LM's of 2021: {}; fill in the column `framework`\n",
                       counted(no_framework.size(), "row") + (no_framework.size() == 1 ? " states" : " state"),
                       no_framework.size() == 1 ? "is" : "are", listed(no_framework));
  return out;
}

}  // namespace

RunTolerance parse_run_tolerance(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw option_fault(kTolerance, fmt::format("'{}' is no limit of a figure: write FIGURE=LIMIT, for example mean=5%", text));
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
  if (!parsed.value) throw option_fault(kTolerance, parsed.problem, "", code::kNotANumber);
  tolerance.limit = *parsed.value;
  if (limit.find('%') == std::string::npos && tolerance.limit > 1)  // every figure is a share
    throw option_fault(kTolerance, fmt::format("'{}': {} is {:g} %; write {}% for that many per cent", text, limit,
                                               100 * tolerance.limit, limit));
  if (find_figure(tolerance.figure) == nullptr) {
    std::vector<std::string> names;
    for (const Figure& figure : kFigures) names.emplace_back(figure.name);
    throw option_fault(kTolerance,
                       fmt::format("there is no figure '{}'{}", tolerance.figure, suggestion_or_list(tolerance.figure, names)),
                       "", code::kUnknownName);
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
        throw option_fault(kTolerance, fmt::format("no row has the source '{}'", tolerance.source), "", code::kUnknownName);
      summary = &found->second;
    }
    const Figure& figure = *find_figure(tolerance.figure);
    ToleranceCheck check{tolerance, figure.of(*summary), true};
    check.ok = figure.at_least ? check.value >= tolerance.limit : check.value <= tolerance.limit;
    report.checks.push_back(check);
  }
  return report;
}

std::vector<const RunPrediction*> worst_first(const RunReport& report) {
  std::vector<const RunPrediction*> rows;
  for (const RunPrediction& run : report.runs)
    if (run.error()) rows.push_back(&run);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return std::abs(*a->error()) > std::abs(*b->error()); });
  return rows;
}

const std::vector<GroupFigure>& group_figures() {
  using S = const Summary&;
  static const std::vector<GroupFigure> figures = {
      {"rows", "predicted and measured", 0, [](S s) { return static_cast<double>(s.errors.rows); }},
      {"mean", "mean absolute error of the step time", 1, [](S s) { return known(s.errors.rows > 0, s.errors.mean); }},
      {"median", "", 1, [](S s) { return known(s.errors.rows > 0, s.errors.median); }},
      {"p90", "nine of ten rows are within", 1, [](S s) { return known(s.errors.rows > 0, s.errors.p90); }},
      {"worst", "", 1, [](S s) { return known(s.errors.rows > 0, s.errors.worst); }},
      {"bias", "mean signed error", 1, [](S s) { return known(s.errors.rows > 0, s.errors.bias); }, true},
      {"pairs", "pairs measured more than 5 % apart that are predicted in the right order", 1,
       [](S s) { return known(s.errors.pairs > 0, s.errors.pairs_ordered); }},
      {"plans", "the same among rows of one model, GPUs and global batch", 1,
       [](S s) { return known(s.choice.pairs > 0, s.choice.pairs_ordered); }},
      {"regret", "what choosing by prediction costs, mean", 2,
       [](S s) { return known(s.choice.groups > 0, s.choice.mean_regret); }},
      {"inside", "measured steps inside the interval that should hold 80 %", 1,
       [](S s) { return known(s.errors.judged > 0, s.errors.inside); }},
      {"memory", "mean absolute error of the peak", 1, [](S s) { return known(s.memory.rows > 0, s.memory.mean); }}};
  return figures;
}

std::string to_table(const RunReport& report, std::size_t most) {
  std::vector<std::string> heads = {""};
  for (const GroupFigure& figure : group_figures()) heads.emplace_back(figure.head);
  std::vector<TextColumn> columns(heads.size(), "");
  columns.front() = "<";
  TextTable table(std::move(columns));  // of all groups: their figures stand below each other
  const auto begin = [&](const std::string& what) {
    table.line(fmt::format("\n{}, errors in %", what));
    table.row(heads);
  };
  const auto add = [&](const std::string& name, const Summary& summary) {
    std::vector<std::string> row = {name};
    for (const GroupFigure& figure : group_figures()) {
      const double value = figure.shown(summary);
      row.push_back(std::isnan(value) ? "-"
                                      : fmt::format("{}{:.{}f}", figure.has_sign && value >= 0 ? "+" : "", value, figure.digits));
    }
    table.row(std::move(row));
  };
  for (const auto& [kind, names] : report.groups) {
    begin(kind);
    for (const auto& [name, summary] : names) add(name, summary);
  }
  begin("all");
  add("all", report.summary);
  std::string out = rows_table(report, most) + skipped_text(report) + doubts_text(report) + table.text();
  if (report.judgement) out += "\n" + to_table(*report.judgement);
  for (const ToleranceCheck& check : report.checks)
    out += fmt::format("{} {}: {:.2f} %\n", check.ok ? "kept:  " : "broken:", check.tolerance.text, 100 * check.value);
  return out;
}

std::string to_json(const RunReport& report) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-validation/1");
  out.objects("rows", report.runs, [&](const RunPrediction& run) { write_row(out, run); });
  write_summary(out, "summary", report.summary);
  out.object("groups", JsonLayout::Lines);
  for (const auto& [kind, names] : report.groups) {
    out.object(kind, JsonLayout::Lines);
    for (const auto& [name, summary] : names) write_summary(out, name, summary);
    out.end();
  }
  out.end();
  if (report.judgement) write_judgement(out, *report.judgement);
  const auto write_check = [&](const ToleranceCheck& check) {
    out.field("tolerance", check.tolerance.text).field("value", check.value).field("ok", check.ok);
  };
  return out.objects("tolerances", report.checks, write_check, JsonLayout::OneLine).end().finish() + "\n";
}

}  // namespace panpipe::validation
