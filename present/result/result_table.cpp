#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text/memory_scale.hpp"
#include "base/text/rate_text.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "present/result/result_text.hpp"

namespace panpipe {
namespace {

constexpr int kBarWidth = 40, kLeastBar = 8;
constexpr int kNameWidth = 24;          // of what a bar shows
constexpr std::size_t kMostRows = 64;   // per-device rows shown; the result JSON has all
constexpr double kSmallestPart = 0.01;  // parts of memory below this share of the peak are named together
constexpr std::size_t kMostLinks = 10;  // contended links shown

struct Paint : TextStyle {
  explicit Paint(const TextStyle& style) : TextStyle(style) {}
  std::string operator()(std::string_view code, const std::string& text) const {
    return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  // Of lines that have so many columns besides the bar.
  int bar_width(int besides) const { return width <= 0 ? kBarWidth : std::clamp(width - besides, kLeastBar, kBarWidth); }
  std::string bar(double share, int columns) const {
    const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns));
    std::string out;
    for (int i = 0; i < columns; ++i) out += i < filled ? (ascii ? "#" : "█") : (ascii ? "." : "·");
    return out;
  }
};

constexpr std::string_view kGreen = "32", kYellow = "33", kRed = "31", kBold = "1", kGrey = "90";

// Four significant digits, always: columns of ragged lengths are hard to compare.
std::string time_text(double time) {
  if (time == 0) return "0";
  constexpr std::pair<double, std::string_view> kUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  for (const auto& [unit, name] : kUnits)
    if (std::abs(time) >= 0.99995 * unit) return fmt::format("{:#.4g} {}", time / unit, name);
  return fmt::format("{:#.4g} ns", time * 1e9);
}

// Where the mean device's step goes; the three lines add up to the step.
std::string time_lines(const Metrics& metrics, const Paint& paint) {
  const double step = metrics.step_time_s;
  if (step <= 0) return "";
  const double idle = std::max(0.0, step - metrics.compute_s - metrics.exposed_communication_s);
  const int columns = paint.bar_width(kNameWidth + 22);
  const auto line = [&](std::string_view name, double time, std::string_view color) {
    return fmt::format("  {:<{}}{} {:>10} {:>6.1f} %\n", name, kNameWidth, paint(color, paint.bar(time / step, columns)),
                       time_text(time), 100 * time / step);
  };
  return line("compute", metrics.compute_s, kGreen) + line("exposed communication", metrics.exposed_communication_s, kYellow) +
         line("idle, nothing in flight", idle, kGrey);
}

std::string rate_line(const Metrics& metrics, int tokens_per_sample) {
  const std::string rates = rates_text(metrics.samples_per_s, tokens_per_sample, metrics.mfu);
  return fmt::format("  bubble {:.1f} % of the step, {:.1f} % inside each rank's own span{}{}\n", 100 * metrics.bubble_step,
                     100 * metrics.bubble_span, rates.empty() ? "" : "; ", rates);
}

// What takes the space: the parts that matter, largest first, as bars of the limit (or of the peak when none is known).
std::string memory_parts(const DeviceTimeline& device, const Paint& paint) {
  std::vector<MemoryPart> parts = device.peak_parts;
  std::stable_sort(parts.begin(), parts.end(), [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  const Bytes whole = std::max(device.limit, device.peak);
  const int columns = paint.bar_width(kNameWidth + 13);
  std::string out;
  double small = 0;
  std::string small_names;
  for (const MemoryPart& part : parts) {
    const double share = part.bytes / whole;
    if (std::abs(part.bytes / device.peak) >= kSmallestPart) {
      out += fmt::format("  {:<{}}{} {:>10}\n", name_of(part.use), kNameWidth,
                         paint(device.peak > device.limit ? kRed : kGreen, paint.bar(share, columns)),
                         memory_text(static_cast<double>(part.bytes.base())));
    } else if (part.bytes != Bytes(0)) {
      small += static_cast<double>(part.bytes.base());
      small_names += (small_names.empty() ? "" : ", ") + std::string(name_of(part.use));
    }
  }
  if (!small_names.empty())
    out += fmt::format("  {:<{}}{:<{}} {:>10}\n", "the rest", kNameWidth,
                       paint.width > 0 ? shortened(small_names, static_cast<std::size_t>(columns)) : small_names, columns,
                       memory_text(small));
  return out;
}

std::string memory_lines(const Timeline& timeline, const Metrics& metrics, const Paint& paint) {
  const DeviceTimeline* device = fullest_device(timeline);
  if (device == nullptr || device->peak == Bytes(0)) return "";
  std::string out = "memory  ";
  if (device->limit > Bytes(0)) {
    out += metrics.fits ? paint(kGreen, "fits: yes") : paint(kRed, "fits: no");
    out += fmt::format(", device {} needs {}", device->device, need_of_limit(device->peak, device->limit));
    const std::string doubt = timeline.kind == TimelineKind::Measured ? "" : doubtful_room(device->peak, device->limit);
    if (!doubt.empty()) out += "\n        " + paint(kYellow, doubt);
  } else {
    out += fmt::format("peak {} on device {}, no limit known", memory_text(static_cast<double>(device->peak.base())),
                       device->device);
  }
  return out + "\n" + memory_parts(*device, paint);
}

// A column of the rows of devices.
struct Column {
  std::string head;
  int width;
  int telling;  // columns of a low number go first where the terminal is narrow
  std::function<std::string(const DeviceMetrics&)> cell;
};

std::vector<Column> device_columns(const Metrics& metrics, const Paint& paint) {
  const MemoryScale memory = memory_scale(metrics.peak_memory_bytes);
  using Row = const DeviceMetrics&;
  std::vector<Column> columns = {
      {"rank", 6, 9, [](Row row) { return fmt::format("{}", row.rank); }},
      {"device", 6, 3, [](Row row) { return fmt::format("{}", row.device); }},
      {"ends", 11, 1, [](Row row) { return time_text(row.step_time_s); }},
      {"compute", 11, 6, [](Row row) { return time_text(row.compute_s); }},
      {"exposed", 11, 4, [](Row row) { return time_text(row.exposed_communication_s); }},
      {"bubble", 8, 5, [](Row row) { return fmt::format("{:.1f} %", 100 * row.bubble_step); }},
      {"in span", 8, 2, [](Row row) { return fmt::format("{:.1f} %", 100 * row.bubble_span); }},
      {"peak " + memory.unit, 10, 7, [memory](Row row) { return fmt::format("{:.1f}", memory.factor * row.peak_memory_bytes); }},
      {"fits", 5, 8, [](Row row) { return std::string(row.fits ? "yes" : "no"); }}};
  const auto total = [&] {
    return std::accumulate(columns.begin(), columns.end(), -1, [](int sum, const Column& c) { return sum + c.width + 1; });
  };
  while (columns.size() > 1 && !paint.fits(static_cast<std::size_t>(total())))
    columns.erase(
        std::min_element(columns.begin(), columns.end(), [](const Column& a, const Column& b) { return a.telling < b.telling; }));
  return columns;
}

// A device of a measured timeline is a row of its own; predicted copies of a rank are one row.
std::string device_rows(const Timeline& timeline, const Metrics& metrics, const Paint& paint) {
  const std::vector<Column> columns = device_columns(metrics, paint);
  const auto line = [&](auto text) {
    std::string out;
    for (const Column& column : columns) out += fmt::format("{}{:>{}}", out.empty() ? "" : " ", text(column), column.width);
    return out;
  };
  std::string out = paint(kBold, line([](const Column& column) { return column.head; })) + "\n";
  std::size_t rows = 0, left_out = 0;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < metrics.per_device.size() && i < timeline.devices.size(); ++i) {
    if (timeline.devices[i].same_as < 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return metrics.per_device[a].rank < metrics.per_device[b].rank; });
  for (const std::size_t i : order) {
    const DeviceMetrics& row = metrics.per_device[i];
    if (rows++ >= kMostRows) {
      ++left_out;
      continue;
    }
    out += line([&](const Column& column) { return column.cell(row); }) + "\n";
  }
  if (left_out > 0) out += fmt::format("  ... and {} more; --json has them all\n", left_out);
  const std::size_t copies = metrics.per_device.size() - order.size();
  if (copies > 0) out += fmt::format("  {} more devices do the same as the one of their rank\n", copies);
  return out;
}

std::string contention_lines(const Timeline& timeline, const Metrics& metrics, const Paint& paint) {
  if (timeline.kind != TimelineKind::Simulated) return "";
  std::vector<LinkContention> links;
  for (const LinkContention& link : timeline.contention) {
    if (link.lost > Duration(0) || link.shared > Duration(0)) links.push_back(link);
  }
  const double share = metrics.step_time_s > 0 ? 100 * metrics.contention_s / metrics.step_time_s : 0;
  if (links.empty()) return "contention  none: no link was shared\n";
  std::string out = fmt::format("contention  costs {} of the step ({:.1f} %)\n", time_text(metrics.contention_s), share);
  std::stable_sort(links.begin(), links.end(),
                   [](const auto& a, const auto& b) { return a.lost != b.lost ? a.lost > b.lost : a.shared > b.shared; });
  constexpr std::size_t kFigures = 57;  // columns of a row besides the link's name
  std::size_t width = 8;
  for (std::size_t i = 0; i < std::min(links.size(), kMostLinks); ++i) width = std::max(width, links[i].resource.size());
  // Narrow: what was lost, and by whom; narrower still: a part of the link's name.
  const bool wide = paint.fits(width + kFigures);
  if (!wide) width = std::min(width, static_cast<std::size_t>(std::max(8, paint.width - 30)));
  std::string head = fmt::format("  {:<{}} {:>12} {:>11}", "link", width, "lost by flows", "shared");
  if (wide) head += fmt::format(" {:>11} {:>6} {:>9}", "busy", "flows", "carried");
  out += paint(kBold, head) + "\n";
  for (std::size_t i = 0; i < std::min(links.size(), kMostLinks); ++i) {
    const LinkContention& link = links[i];
    out += fmt::format("  {:<{}} {:>13} {:>11}", shortened(link.resource, width), width, time_text(link.lost.base()),
                       time_text(link.shared.base()));
    if (wide) out += fmt::format(" {:>11} {:>6} {:>7.1f} %", time_text(link.busy.base()), link.flows, 100 * link.utilisation);
    out += "\n";
  }
  if (links.size() > kMostLinks) out += fmt::format("  ... and {} more links; --json has them all\n", links.size() - kMostLinks);
  return out;
}

// ", median of 5 steps, 102.1 ms to 108.9 ms"
std::string steps_text(const Timeline& timeline, const Metrics& metrics) {
  if (timeline.steps.size() < 2) return "";
  return fmt::format(", median of {} steps, {} to {}", timeline.steps.size(), time_text(metrics.step_time_min_s),
                     time_text(metrics.step_time_max_s));
}

}  // namespace

std::string to_table(const Timeline& timeline, const Metrics& metrics, const TextStyle& style, int tokens_per_sample) {
  const Paint paint{style};
  std::string out = paint(kBold, fmt::format("step time  {}", time_text(metrics.step_time_s))) +
                    fmt::format("  ({}{})\n", name_of(timeline.kind), steps_text(timeline, metrics));
  out += time_lines(metrics, paint) + rate_line(metrics, tokens_per_sample) + memory_lines(timeline, metrics, paint) + "\n";
  out += device_rows(timeline, metrics, paint);
  const std::string contention = contention_lines(timeline, metrics, paint);
  if (!contention.empty()) out += "\n" + contention;
  return wrapped(out, style.width);
}

std::string to_table(const Timeline& timeline, const Metrics& metrics, bool color) {
  return to_table(timeline, metrics, TextStyle{.color = color}, 0);
}

}  // namespace panpipe
