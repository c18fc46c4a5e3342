#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text/counted.hpp"
#include "base/text/memory_text.hpp"
#include "base/text/percent.hpp"
#include "base/text/rate_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/run_cost/run_cost_text.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "present/result/result_text.hpp"

namespace panpipe::present {
namespace {

constexpr int kBarWidth = 40, kLeastBar = 8;
constexpr int kNameWidth = 23;          // of what a bar shows
constexpr std::size_t kMostRows = 64;   // per-device rows shown; the result JSON has all
constexpr double kSmallestPart = 0.01;  // parts of memory below this share of the peak are named together
constexpr std::size_t kMostLinks = 10;  // contended links shown

// The bar of a share, in so many columns.
std::string bar(const TextStyle& style, std::string_view color, double share, int columns) {
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns));
  std::string out;
  for (int i = 0; i < columns; ++i) out += i < filled ? (style.ascii ? "#" : "█") : (style.ascii ? "." : "·");
  return style.paint(color, out);
}

// Columns of bars in lines that have so many others.
int bar_width(const TextStyle& style, int others) {
  return style.width <= 0 ? kBarWidth : std::clamp(style.width - others, kLeastBar, kBarWidth);
}

// Names, bars and figures; also where the next table has other names, bars begin in the same column.
TextTable table_of_bars(TextColumn last) {
  return TextTable({TextColumn("<").least(kNameWidth), "<", TextColumn("").least(8), std::move(last)});
}

// Four significant digits, always: columns of ragged lengths are hard to compare.
std::string time_text(double time) {
  if (time == 0) return "0";
  if (std::abs(time) >= 999.95) return fmt::format("{:.0f} s", time);  // "4578.0 s" next to "20.32 s" looks more exact
  constexpr std::pair<double, std::string_view> kUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  for (const auto& [unit, name] : kUnits)
    if (std::abs(time) >= 0.99995 * unit) return fmt::format("{:#.4g} {}", time / unit, name);
  return fmt::format("{:#.4g} ns", time * 1e9);
}

// Where the mean device's step goes; the three lines add up to the step.
std::string time_lines(const Metrics& metrics, const TextStyle& style) {
  const double step = metrics.step_time_s;
  if (step <= 0) return "";
  const int columns = bar_width(style, kNameWidth + 25);
  TextTable table = table_of_bars("");
  const auto row = [&](const char* name, double time, std::string_view color) {
    table.row({name, bar(style, color, time / step, columns), time_text(time), percent(time / step)});
  };
  row("compute", metrics.compute_s, kGreen);
  row("exposed communication", metrics.exposed_communication_s, kYellow);
  const Duration idle(std::max(0.0, step - metrics.compute_s - metrics.exposed_communication_s));
  row("idle, nothing in flight", to_ticks(idle) < Ticks(1) ? 0 : idle.base(), kGrey);  // sums of many spans in another order
  return table.text(style);
}

std::string rate_line(const Metrics& metrics, double tokens_per_sample) {
  const std::string rates = rates_text(metrics.samples_per_s, tokens_per_sample, metrics.mfu);
  return fmt::format("  bubble {} of the step, {} inside each rank's own span{}{}\n", percent(metrics.bubble_step),
                     percent(metrics.bubble_span), rates.empty() ? "" : "; ", rates);
}

// The use of memory: the parts that matter, largest first, as bars of the limit (or of the peak when none is known).
std::string memory_parts(const DeviceTimeline& device, const TextStyle& style) {
  std::vector<MemoryPart> parts = device.peak_parts;
  std::stable_sort(parts.begin(), parts.end(), [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  const Bytes whole = std::max(device.limit, device.peak);
  const int columns = bar_width(style, kNameWidth + 17);
  TextTable table = table_of_bars(TextColumn("<").importance(1));
  double small = 0;
  std::string small_names;
  for (const MemoryPart& part : parts) {
    const auto bytes = static_cast<double>(part.bytes.base());
    if (std::abs(part.bytes / device.peak) >= kSmallestPart) {
      const std::string_view color = device.peak > device.limit ? kRed : kGreen;
      table.row({std::string(name_of(part.use)), bar(style, color, part.bytes / whole, columns), memory_text(bytes)});
    } else if (part.bytes != Bytes(0)) {
      small += bytes;
      small_names += (small_names.empty() ? "" : ", ") + std::string(name_of(part.use));
    }
  }
  if (!small_names.empty()) table.row({"the rest", "", memory_text(small), small_names});
  return table.text(style);
}

std::string memory_lines(const Timeline& timeline, const Metrics& metrics, const TextStyle& style) {
  const DeviceTimeline* device = fullest_device(timeline.devices);
  if (device == nullptr || device->peak == Bytes(0)) return "";
  std::string out = "memory  ";
  if (device->limit > Bytes(0)) {
    out += metrics.fits ? style.paint(kGreen, "fits: yes") : style.paint(kRed, "fits: no");
    out += fmt::format(", device {} needs {}", device->device, need_of_limit(device->peak, device->limit));
    const std::string doubt = timeline.kind == TimelineKind::Measured ? "" : doubtful_room(device->peak, device->limit);
    if (!doubt.empty()) out += "\n        " + style.paint(kYellow, doubt);
  } else {
    out += fmt::format("peak {} on device {}, no limit known", memory_text(static_cast<double>(device->peak.base())),
                       device->device);
  }
  return out + "\n" + memory_parts(*device, style);
}

// A device of a measured timeline is a row of its own; predicted devices of a rank that do the same are one row.
std::string device_rows(const Timeline& timeline, const Metrics& metrics, const TextStyle& style) {
  const MemoryScale memory = memory_scale(metrics.peak_memory_bytes);
  const auto column = [](const std::string& head, int importance) { return TextColumn(head).importance(importance); };
  TextTable table({"rank", column("device", 3), column("ends", 1), column("compute", 6), column("exposed", 4),
                   column("bubble", 5), column("in span", 2), column("peak " + memory.unit, 7), column("fits", 8)});
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < metrics.per_device.size() && i < timeline.devices.size(); ++i)
    if (timeline.devices[i].same_as < 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return metrics.per_device[a].rank < metrics.per_device[b].rank; });
  for (std::size_t i = 0; i < std::min(order.size(), kMostRows); ++i) {
    const DeviceMetrics& row = metrics.per_device[order[i]];
    table.row({std::to_string(row.rank), std::to_string(row.device), time_text(row.step_time_s), time_text(row.compute_s),
               time_text(row.exposed_communication_s), percent(row.bubble_step), percent(row.bubble_span),
               fmt::format("{:.1f}", memory.factor * row.peak_memory_bytes), row.fits ? "yes" : "no"});
  }
  if (order.size() > kMostRows) table.line(fmt::format("  ... and {} more; --json has them all", order.size() - kMostRows));
  const std::size_t copies = metrics.per_device.size() - order.size();
  if (copies > 0) table.line(fmt::format("  {} more devices do the same as the one of their pipeline rank", copies));
  return table.text(style);
}

std::string contention_lines(const Timeline& timeline, const Metrics& metrics, const TextStyle& style) {
  if (timeline.kind != TimelineKind::Simulated) return "";
  std::vector<LinkContention> links;
  for (const LinkContention& link : timeline.contention) {
    if (link.lost > Duration(0) || link.shared > Duration(0)) links.push_back(link);
  }
  const double share = metrics.step_time_s > 0 ? metrics.contention_s / metrics.step_time_s : 0;
  if (links.empty()) return "contention  none: no link was shared\n";
  std::stable_sort(links.begin(), links.end(),
                   [](const auto& a, const auto& b) { return a.lost != b.lost ? a.lost > b.lost : a.shared > b.shared; });
  TextTable table({TextColumn("<link").shrinks_to(8), "lost by flows", "shared", TextColumn("busy").importance(2),
                   TextColumn("flows").importance(1), TextColumn("carried").importance(3)});
  for (std::size_t i = 0; i < std::min(links.size(), kMostLinks); ++i) {
    const LinkContention& link = links[i];
    table.row({link.resource, time_text(link.lost.base()), time_text(link.shared.base()), time_text(link.busy.base()),
               std::to_string(link.flows), percent(link.utilisation)});
  }
  std::string out = fmt::format("contention  costs {} of the step ({})\n", time_text(metrics.contention_s), percent(share));
  out += table.text(style);
  if (links.size() > kMostLinks) out += fmt::format("  ... and {} more links; --json has them all\n", links.size() - kMostLinks);
  return out;
}

// ", median of 5 steps, 102.1 ms to 108.9 ms"
std::string steps_text(const Timeline& timeline, const Metrics& metrics) {
  if (timeline.steps.size() < 2) return "";
  return fmt::format(", median of {} steps, {} to {}", timeline.steps.size(), time_text(metrics.step_time_min_s),
                     time_text(metrics.step_time_max_s));
}

std::string sureness_line(const Metrics& metrics) {
  const std::string text =
      sureness_text(metrics.step_time_p10_s, metrics.step_time_p50_s, metrics.step_time_p90_s, metrics.evidence);
  return (text.empty() ? "" : "  " + text + "\n") + evidence_text(metrics.step_time_p50_s, metrics.evidence);
}

}  // namespace

std::string to_table(const Timeline& timeline, const Metrics& metrics, const TextStyle& style, double tokens_per_sample) {
  const bool rolls = metrics.period_s > 0;
  std::string out = style.paint(kBold, fmt::format("{}  {}", rolls ? "period" : "step time", time_text(metrics.step_time_s))) +
                    fmt::format("  ({}{})\n", name_of(timeline.kind), steps_text(timeline, metrics));
  if (rolls)
    out += fmt::format("  of steps in a row, without a flush; the first takes {}; gradients are stale by {}\n",
                       time_text(metrics.first_step_s), counted(metrics.staleness, "update"));
  out += sureness_line(metrics);
  out += time_lines(metrics, style) + rate_line(metrics, tokens_per_sample) + memory_lines(timeline, metrics, style);
  if (metrics.run) out += run_lines(*metrics.run);
  if (metrics.rl) out += rl_lines(*metrics.rl);
  out += "\n";
  out += device_rows(timeline, metrics, style);
  const std::string contention = contention_lines(timeline, metrics, style);
  if (!contention.empty()) out += "\n" + contention;
  return wrapped(out, style.width);
}

std::string to_table(const Timeline& timeline, const Metrics& metrics, bool color) {
  return to_table(timeline, metrics, TextStyle{.color = color}, 0);
}

}  // namespace panpipe::present
