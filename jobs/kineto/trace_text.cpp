#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/json_writer.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "jobs/job.hpp"
#include "jobs/kineto/trace_compare.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostCollectives = 12;  // rows shown; the document has all
constexpr std::size_t kMostKernelNames = 10;

std::string time_of(double us) { return us > 0 ? to_text(Duration(us / 1e6)) : std::string(1, '0'); }
std::string signed_time(double us) { return fmt::format("{}{}", us > 0 ? "+" : us < 0 ? "-" : "", time_of(std::abs(us))); }
std::string share_of(double part, double whole) { return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : ""; }

using Traced = std::pair<TracedForm, TracedCollectives>;

std::vector<Traced> longest_collectives(const KinetoTrace& trace) {
  std::vector<Traced> all(trace.collectives.begin(), trace.collectives.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const Traced& a, const Traced& b) { return a.second.total_us > b.second.total_us; });
  return all;
}

std::vector<std::pair<std::string, TracedName>> longest_other_kernels(const KinetoTrace& trace) {
  std::vector<std::pair<std::string, TracedName>> all;
  for (const auto& known : trace.names)
    if (known.second.group == KernelGroup::Other) all.push_back(known);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second.total_us > b.second.total_us; });
  if (all.size() > kMostKernelNames) all.resize(kMostKernelNames);
  return all;
}

std::string collectives_text(const KinetoTrace& trace, const TraceSummary& measured) {
  if (trace.collectives.empty()) return "";
  TextTable table({"<collective", "ranks", "bytes", "a step", "time a step", "least", "mean"});
  const std::vector<Traced> all = longest_collectives(trace);
  const double steps = static_cast<double>(measured.steps) * std::max(1, measured.devices);
  for (std::size_t i = 0; i < std::min(all.size(), kMostCollectives); ++i) {
    const auto& [form, times] = all[i];
    const auto& [group, ranks, nodes, bytes] = form;
    table.row({std::string(name_of(group)), ranks > 0 ? std::to_string(ranks) : "?", bytes > 0 ? to_text(Bytes(bytes)) : "?",
               fmt::format("{:.4g}", static_cast<double>(times.count) / steps), time_of(times.total_us / steps),
               time_of(times.least_us), time_of(times.total_us / static_cast<double>(times.count))});
  }
  std::string text = fmt::format("\n{}", table.text());
  if (all.size() > kMostCollectives) text += fmt::format("  {} more; --json lists all\n", all.size() - kMostCollectives);
  return text;
}

// Which group makes the step longer or shorter than predicted, and which one most against that.
std::string verdict_text(const std::vector<TraceRow>& rows, double difference_us) {
  const double sign = difference_us < 0 ? -1 : 1;
  const TraceRow *with = nullptr, *against = nullptr;
  const auto part = [&](const TraceRow& row) { return sign * (row.measured_us - row.predicted_us); };
  for (const TraceRow& row : rows) {
    if (row.communication || row.group == "step") continue;  // of communication the exposed part counts
    if (!with || part(row) > part(*with)) with = &row;
    if (!against || part(row) < part(*against)) against = &row;
  }
  const auto named = [](const TraceRow& row) {
    return fmt::format("{} ({})", row.group, signed_time(row.measured_us - row.predicted_us));
  };
  std::string text = difference_us == 0 ? std::string("The step takes as long as predicted")
                                        : fmt::format("The step takes {} {} than predicted", time_of(std::abs(difference_us)),
                                                      difference_us > 0 ? "longer" : "less");
  if (with && part(*with) > 0) text += fmt::format("; the largest part of it is {}", named(*with));
  if (against && part(*against) < -0.1 * std::abs(difference_us) && part(*against) < 0)
    text += fmt::format("; against it stands {}", named(*against));
  return text + ".\n";
}

}  // namespace

std::string trace_table(const KinetoTrace& trace, const TraceSummary& measured, const PredictedGroups* predicted) {
  std::string text = fmt::format("{} kernels of {} device{}, {} step{}\n", trace.kernels.size(), measured.devices,
                                 measured.devices == 1 ? "" : "s", measured.steps, measured.steps == 1 ? "" : "s");
  const std::vector<TraceRow> rows = rows_of(measured, predicted);
  TextTable table(predicted ? std::vector<TextColumn>{"<a step", "measured", "share", "predicted", "share", "difference"}
                            : std::vector<TextColumn>{"<a step", "measured", "share"});
  for (const TraceRow& row : rows) {
    std::vector<std::string> cells = {row.group, time_of(row.measured_us), share_of(row.measured_us, measured.step_us)};
    if (predicted) {
      cells.push_back(time_of(row.predicted_us));
      cells.push_back(share_of(row.predicted_us, predicted->step_us));
      cells.push_back(signed_time(row.measured_us - row.predicted_us));
    }
    table.row(std::move(cells));
  }
  text += table.text();
  text += collectives_text(trace, measured);
  const auto unknown = longest_other_kernels(trace);
  if (!unknown.empty()) text += "\nkernels of no group:\n";
  for (const auto& [name, times] : unknown)
    text += fmt::format("  {} x {}: {}\n", times.count, one_line(name), time_of(times.total_us));
  return predicted ? text + verdict_text(rows, measured.step_us - predicted->step_us) : text;
}

std::string trace_json(const KinetoTrace& trace, const TraceSummary& measured, const PredictedGroups* predicted) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-kernels/1");
  out.field("kernels", trace.kernels.size()).field("devices", measured.devices).field("steps", measured.steps);
  if (trace.rank >= 0) out.field("rank", trace.rank);
  if (predicted) out.field("predicted_device", predicted->device);
  out.key("groups").list(JsonLayout::Lines);
  for (const TraceRow& row : rows_of(measured, predicted)) {
    out.object().field("group", row.group).field("measured_s", row.measured_us / 1e6);
    if (predicted) out.field("predicted_s", row.predicted_us / 1e6);
    out.end();
  }
  out.end().key("collectives").list(JsonLayout::Lines);
  for (const auto& [form, times] : longest_collectives(trace)) {
    const auto& [group, ranks, nodes, bytes] = form;
    out.object().field("kind", name_of(group)).field("ranks", ranks).field("nodes", nodes).field("bytes", bytes);
    out.field("count", times.count).field("total_s", times.total_us / 1e6).field("least_s", times.least_us / 1e6).end();
  }
  return out.end().end().finish();
}

}  // namespace panpipe::jobs
