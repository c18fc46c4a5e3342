#include "study/report/report_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "study/report/traffic.hpp"

namespace panpipe::study {
namespace {

using present::number;
using present::words;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostLinks = 20;     // the busiest ones
constexpr std::size_t kMostClasses = 200;  // passes and transfers by stage

present::TableCell difference(const std::optional<double>& relative) {
  present::TableCell cell = number(100 * relative.value_or(kNoNumber), 1);
  if (relative && *relative >= kFactorFrom) cell.text = relative_text(*relative);
  return cell;
}

// Six digits for any size.
present::TableCell plain(const std::optional<double>& value) {
  present::TableCell cell = number(value.value_or(kNoNumber), 6);
  if (value) cell.text = fmt::format("{:.6g}", *value);
  return cell;
}

}  // namespace

present::Table traffic_table(const present::ResultDocument& result, const std::string& name, const present::TimeScale& scale) {
  present::Table table;
  table.caption = name + "what each device sends, receives and sums";
  table.columns = {{"device", "", true, ""},
                   {"rank", "", true, ""},
                   {"lane", "", false, ""},
                   {"transfers", "", true, ""},
                   {"volume", "MiB", true, ""},
                   {"in flight", scale.unit, true, "with at least one under way"},
                   {"rate", "GB/s", true, "volume by time in flight"},
                   {"exposed", scale.unit, true, "of it, beside an idle or waiting compute lane"}};
  for (const LaneTraffic& lane : traffic_of(result).lanes) {
    const auto bytes = static_cast<double>(lane.bytes);
    table.rows.push_back({number(lane.device, 0), number(lane.rank, 0), words(std::string(name_of(lane.lane))),
                          number(static_cast<double>(lane.count), 0), number(bytes / (1 << 20), 1),
                          number(scale.factor * lane.busy, 3),
                          number(lane.busy > 0 && lane.bytes > 0 ? bytes / lane.busy / 1e9 : kNoNumber, 2),
                          number(scale.factor * lane.exposed, 3)});
  }
  return table;
}

present::Table links_table(std::vector<LinkContention> links, const std::string& name, const present::TimeScale& scale) {
  std::stable_sort(links.begin(), links.end(),
                   [](const auto& a, const auto& b) { return a.lost != b.lost ? a.lost > b.lost : a.busy > b.busy; });
  present::Table table;
  table.caption = name + (links.size() > kMostLinks
                              ? fmt::format("the {} slowest of {} links, by time lost to sharing", kMostLinks, links.size())
                              : std::string("links, by time lost to sharing"));
  table.columns = {{"link", "", false, ""},
                   {"busy", scale.unit, true, "with at least one transfer"},
                   {"shared", scale.unit, true, "with at least two"},
                   {"lost by flows", scale.unit, true, "sum over transfers: taken less what they take alone"},
                   {"flows", "", true, "largest number of transfers at once"},
                   {"carried", "%", true, "bytes, by capacity over the step"}};
  links.resize(std::min(links.size(), kMostLinks));
  for (const LinkContention& link : links) {
    const present::Tone tone = link.lost > Duration(0) ? present::Tone::Bad : present::Tone::Plain;
    table.rows.push_back({words(link.resource), number(scale.factor * link.busy.base(), 3),
                          number(scale.factor * link.shared.base(), 3), number(scale.factor * link.lost.base(), 3, tone),
                          number(link.flows, 0), number(100 * link.utilisation, 1)});
  }
  return table;
}

present::Table metrics_table(const Comparison& comparison, const std::vector<std::string>& names) {
  present::Table table;
  table.caption = fmt::format("differences in per cent of the {} value", names[comparison.reference_is_b ? 1 : 0]);
  table.columns = {{"metric", "", false, ""}, {names[0], "", true, ""}, {names[1], "", true, ""}, {"difference", "%", true, ""}};
  for (const ComparedMetric& row : comparison.metrics)
    table.rows.push_back({words(row.name), plain(row.a), plain(row.b), difference(row.relative)});
  return table;
}

present::Table classes_table(const Comparison& comparison, const std::vector<std::string>& names,
                             const present::TimeScale& scale) {
  present::Table table;
  table.caption = "passes and transfers, mean time of one";
  table.columns = {{"action", "", false, ""},        {"stage", "", true, ""},
                   {"count", "", true, ""},          {names[0], scale.unit, true, ""},
                   {names[1], scale.unit, true, ""}, {"difference of the sums", scale.unit, true, ""}};
  for (std::size_t k = 0; k < std::min(comparison.classes.size(), kMostClasses); ++k) {
    const ComparedClass& row = comparison.classes[k];
    table.rows.push_back({words(row.name), number(row.stage < 0 ? kNoNumber : row.stage, 0), number(row.count_a, 0),
                          number(scale.factor * row.mean_a, 3), number(scale.factor * row.mean_b, 3),
                          number(scale.factor * row.total_difference, 3)});
  }
  return table;
}

}  // namespace panpipe::study
