// A forecast for people and for programs.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "app/forecast.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/run_quantity_text.hpp"

namespace panpipe::app {
namespace {

std::string range_text(const Quantiles& q) { return fmt::format("{} to {}", time_text(q.p10), time_text(q.p90)); }

// Of the calendar to the year 9999: what lies beyond has no date.
constexpr double kLastDate = 253402300799.0;
std::string date_text(double seconds) {
  if (!(seconds >= 0 && seconds <= kLastDate)) return "";
  const std::chrono::sys_seconds time{std::chrono::seconds(static_cast<long long>(seconds))};
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

// When the last step will be over: counted from the stamp of the last line, else from `now`.
struct End {
  std::string date;  // empty: beyond the calendar
  const char *by, *words;
};
End end_of(const Forecast& f, double now) {
  const auto& stamp = f.log.log.run.end;
  std::string date = date_text((stamp ? stamp->seconds : now) + f.left_s.p50);
  if (!date.empty() && (!stamp || stamp->utc)) date += "Z";
  return stamp ? End{date, "log", "by the log's clock"} : End{date, "now", "if the last line is of now"};
}

std::string heading(const Forecast& f) {
  const jobs::TrainingLog& log = f.log.log;
  if (log.run.last_step > f.steps)
    return fmt::format("{}: at step {}, past the {} that the run has by {}; nothing is left\n", log.title, log.run.last_step,
                       f.steps, f.steps_origin);
  return fmt::format("{}: {} of {} steps ({}), {} left\n", log.title, log.run.last_step, f.steps, f.steps_origin, f.steps_left);
}

// The options of `panpipe import log` have one other name here.
std::string option_named(const std::string& option) { return option == "job" ? "scenario" : option; }

void write_quantiles(JsonWriter& out, const char* name, const std::optional<Quantiles>& q) {
  if (!q) {
    out.field(name, nullptr);
    return;
  }
  out.object(name).field("p10", q->p10).field("p50", q->p50).field("p90", q->p90).end();
}

}  // namespace

std::string to_text(const Forecast& f, double now, const TextStyle& style) {
  const jobs::TrainingLog& log = f.log.log;
  std::string text = heading(f);
  text += fmt::format("step: {} in the median, {} in the mean; 80 % for the rest: {}\n", time_text(log.run.measured.median_s),
                      time_text(log.run.mean_s), range_text(f.step_s));
  if (f.before_s)
    text += fmt::format(
        "predicted without the log: {} ({}); {}\n", time_text(f.before_s->p50), range_text(*f.before_s),
        f.after_s ? fmt::format("another run of the job after it: {} ({})", time_text(f.after_s->p50), range_text(*f.after_s))
                  : "the log does not count for other runs");
  if (f.steps_left > 0) {
    text += fmt::format("left: {} ({} to {})", long_time_text(f.left_s.p50), long_time_text(f.left_s.p10),
                        long_time_text(f.left_s.p90));
    const End end = end_of(f, now);
    text += end.date.empty() ? "\n" : fmt::format(", until {} {}\n", end.date, end.words);
  }
  const auto money = [&](double amount) { return money_text(amount, f.run->currency); };
  if (f.run)
    text += fmt::format("whole run: {}{}\n", long_time_text(f.run->time_s),
                        f.cost_left ? fmt::format(", {}; left of it {} ({} to {})", money(*f.run->cost), money(f.cost_left->p50),
                                                  money(f.cost_left->p10), money(f.cost_left->p90))
                                    : "");
  for (const std::string& note : f.notes) text += note + "\n";
  for (const std::string& alarm : f.alarms) text += style.paint(kYellow, "ALARM: " + alarm) + "\n";
  for (const OpenPoint& point : f.log.open)
    text += fmt::format("not compared with a prediction: {}{}\n", point.reason,
                        point.option.empty() ? "" : fmt::format("; --{} states it", option_named(point.option)));
  return wrapped(text, style.width);
}

std::string to_json(const Forecast& f, double now) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-forecast/1").field("file", f.log.log.file);
  out.field("trainer", f.log.log.trainer).field("steps_done", f.log.log.run.last_step).field("steps", f.steps);
  out.field("steps_left", f.steps_left).field("median_step_s", f.log.log.run.measured.median_s);
  write_quantiles(out, "step_s", f.step_s);
  write_quantiles(out, "left_s", f.left_s);
  const End end = end_of(f, now);
  out.field("end", end.date.empty() ? std::nullopt : std::optional(end.date)).field("end_by", end.by);
  write_quantiles(out, "predicted_before_s", f.before_s);
  write_quantiles(out, "predicted_after_s", f.after_s);
  out.field("run_time_s", f.run ? std::optional(f.run->time_s) : std::nullopt);
  out.field("cost", f.run ? f.run->cost : std::nullopt);
  write_quantiles(out, "cost_left", f.cost_left);
  out.field("currency", f.run && f.run->cost ? std::optional(f.run->currency) : std::nullopt);
  out.field("notes", f.notes).field("alarms", f.alarms);
  out.list("open", JsonLayout::Lines);
  for (const OpenPoint& point : f.log.open)
    out.object().field("reason", point.reason).field("option", option_named(point.option)).end();
  return out.end().end().finish() + "\n";
}

}  // namespace panpipe::app
