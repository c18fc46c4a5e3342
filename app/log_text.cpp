// The answer of `panpipe import log` for people and for programs.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "app/import_log.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/run_quantity_text.hpp"
#include "base/text/text_table.hpp"

namespace panpipe::app {
namespace {

constexpr std::size_t kMostRuns = 12;  // shown; the document has all
constexpr double kNotable = 0.02;      // drift that is worth a word

std::string bytes_text(double bytes) { return to_text(Bytes(std::llround(bytes))); }

struct Counted {
  const char* key;
  const char* words;
  long long jobs::LeftOutSteps::*count;
};
constexpr Counted kLeftOut[] = {
    {"warm_up", "of warm-up", &jobs::LeftOutSteps::warm_up},
    {"evaluation", "with an evaluation", &jobs::LeftOutSteps::evaluation},
    {"checkpoint", "with a checkpoint", &jobs::LeftOutSteps::checkpoint},
    {"skipped", "with skipped iterations", &jobs::LeftOutSteps::skipped},
    {"other_batch", "of another batch", &jobs::LeftOutSteps::other_batch},
    {"untimed", "without a time", &jobs::LeftOutSteps::untimed},
    {"other_runs", "of other runs", &jobs::LeftOutSteps::other_runs},
    {"other_ranks", "lines of other ranks", &jobs::LeftOutSteps::other_ranks},
    {"cut_lines", "lines that are cut off", &jobs::LeftOutSteps::cut_lines},
};

std::string heading(const LogAnswer& answer) {
  const jobs::TrainingLog& log = answer.log;
  std::string text = fmt::format("{}, steps {} to {}", log.title, log.run.first_step, log.run.last_step);
  if (log.runs > 1) text += fmt::format(", run {} of {}", log.run_number, log.runs);
  return text + "\n";
}

std::string left_out_text(const jobs::LeftOutSteps& left_out) {
  std::string text;
  for (const Counted& reason : kLeftOut)
    if (const long long count = left_out.*reason.count; count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, reason.words);
  return text.empty() ? "" : "left out: " + text + "\n";
}

std::string measured_text(const jobs::LoggedRun& run) {
  const jobs::SteadyState& steady = run.measured;
  std::string text = fmt::format("measured: {} a step, the median of {} logged steps; p10 {}, p90 {}", time_text(steady.median_s),
                                 steady.steps, time_text(steady.p10_s), time_text(steady.p90_s));
  if (steady.drift)
    text += std::abs(*steady.drift) < kNotable
                ? ", no drift"
                : fmt::format(", drift {} from the first third to the last", signed_percent(*steady.drift));
  text += "\n";
  if (run.skipping) text += "every logged step skipped its update, so these count\n";
  if (run.disturbed) text += "every logged step holds an evaluation or a checkpoint, so these count\n";
  return text;
}

std::string compared_text(const LogAnswer& answer, const TextStyle& style) {
  const jobs::LoggedRun& run = answer.log.run;
  const LoggedPrediction& predicted = *answer.predicted;
  TextTable table({"<", "measured", "predicted", "predicted / measured - 1"});
  table.row({"step", time_text(run.measured.median_s), time_text(predicted.metrics.step_time_s),
             signed_percent(predicted.metrics.step_time_s / run.measured.median_s - 1)});
  if (run.peak_kind != jobs::PeakKind::None)
    table.row({fmt::format("memory, {}", name_of(run.peak_kind)), bytes_text(run.peak_bytes), bytes_text(predicted.peak_bytes),
               signed_percent(predicted.peak_bytes / run.peak_bytes - 1)});
  else
    table.row({"memory", "", bytes_text(predicted.peak_bytes)});
  std::string text = table.text(style);
  TextTable terms({"<of the predicted step", "time", "share"});
  for (const StepTerm& term : kStepTerms)
    if (const double seconds = predicted.terms.*term.of; seconds > 0)
      terms.row({term.words, time_text(seconds), fmt::format("{:.1f} %", 100 * seconds / predicted.metrics.step_time_s)});
  text += terms.text(style);
  if (!predicted.metrics.fits)
    text +=
        "CONTRADICTION: the run trained, and its prediction does not fit into the memory of its devices: the scenario is not "
        "this "
        "job, or the prediction of memory is wrong\n";
  return text;
}

std::string runs_text(const LogAnswer& answer, const TextStyle& style) {
  if (answer.log.runs < 2) return "";
  TextTable table({"run", "steps", "counted", "a step"});
  const auto& runs = answer.log.summaries;
  for (std::size_t i = 0; i < std::min(runs.size(), kMostRuns); ++i)
    table.row({std::to_string(i + 1), fmt::format("{} to {}", runs[i].first_step, runs[i].last_step),
               std::to_string(runs[i].steps), runs[i].steps > 0 ? time_text(runs[i].median_s) : "-"});
  std::string text = table.text(style);
  if (answer.log.runs > static_cast<long long>(kMostRuns))
    text += fmt::format("  {} more; --run N answers with another\n", answer.log.runs - static_cast<long long>(kMostRuns));
  return text;
}

void write_predicted(JsonWriter& out, const LogAnswer& answer) {
  if (!answer.predicted) {
    out.field("predicted", nullptr);
    return;
  }
  const LoggedPrediction& p = *answer.predicted;
  out.object("predicted")
      .field("step_time_s", p.metrics.step_time_s)
      .field("peak_memory_bytes", p.peak_bytes)
      .field("fits", p.metrics.fits);
  out.field("relative_error", p.metrics.step_time_s / answer.log.run.measured.median_s - 1);
  out.object("terms");
  for (const StepTerm& term : kStepTerms) out.field(term.key, p.terms.*term.of);
  out.end().end();
}

}  // namespace

std::string to_text(const LogAnswer& answer, const TextStyle& style) {
  std::string text = heading(answer) + runs_text(answer, style) + measured_text(answer.log.run);
  if (answer.log.run.peak_kind != jobs::PeakKind::None)
    text += fmt::format("memory: {} {}\n", bytes_text(answer.log.run.peak_bytes), name_of(answer.log.run.peak_kind));
  text += left_out_text(answer.log.run.left_out);
  if (answer.predicted) text += compared_text(answer, style);
  for (const std::string& why : answer.contradictions()) text += fmt::format("CONTRADICTION: {}\n", why);
  for (const OpenPoint& point : answer.open)
    text += fmt::format("not predicted: {}{}\n", point.reason,
                        point.option.empty() ? "" : fmt::format("; --{} states it", point.option));
  return text;
}

std::string to_json(const LogAnswer& answer) {
  const jobs::TrainingLog& log = answer.log;
  const jobs::SteadyState& steady = log.run.measured;
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-log/1").field("file", log.file).field("trainer", log.trainer);
  out.field("run", log.run_number);
  out.list("runs", JsonLayout::Lines);
  for (const jobs::RunSummary& run : log.summaries)
    out.object()
        .field("first_step", run.first_step)
        .field("last_step", run.last_step)
        .field("steps", run.steps)
        .field("step_time_s", run.steps > 0 ? std::optional(run.median_s) : std::nullopt)
        .end();
  out.end();
  const bool printed = log.run.peak_kind != jobs::PeakKind::None;
  out.object("measured").field("step_time_s", steady.median_s).field("steps", steady.steps).field("p10_s", steady.p10_s);
  out.field("p90_s", steady.p90_s).field("drift", steady.drift);
  out.field("peak_memory_bytes", printed ? std::optional(log.run.peak_bytes) : std::nullopt);
  out.field("peak_kind", printed ? std::optional(std::string(name_of(log.run.peak_kind))) : std::nullopt).end();
  out.object("left_out");
  for (const Counted& reason : kLeftOut) out.field(reason.key, log.run.left_out.*reason.count);
  out.end();
  write_predicted(out, answer);
  out.field("contradictions", answer.contradictions());
  out.list("open", JsonLayout::Lines);
  for (const OpenPoint& point : answer.open) out.object().field("reason", point.reason).field("option", point.option).end();
  out.end().field("other_trainers", log.other_trainers);
  return out.end().finish() + "\n";
}

}  // namespace panpipe::app
