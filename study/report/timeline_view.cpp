#include "study/report/timeline_view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/text/quantity_text.hpp"
#include "present/page/page_table.hpp"
#include "present/picture/picture_layout.hpp"
#include "present/picture/markup.hpp"
#include "present/picture/palette.hpp"
#include "present/picture/timeline_picture.hpp"
#include "base/text/json_text.hpp"

namespace panpipe {
namespace {

// Times as whole parts of the longest step: ten times finer than a pixel at a hundredfold zoom. Memory as parts of the highest
// peak.
constexpr double kTicks = 2e6, kLevels = 5000;
constexpr std::size_t kMostStillSpans = 6000;  // a larger picture for the printer would make most of the page

// Text inside a script: no "<" can end it.
std::string script_text(const std::string& text) {
  std::string out;
  for (const char c : json::text(text)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

void append(std::string& list, const std::string& item, const char* separator = ",") {
  if (!list.empty()) list += separator;
  list += item;
}

class ViewData {
 public:
  ViewData(const std::vector<const ResultDocument*>& results, const std::vector<std::string>& names)
      : results_(results), names_(names) {
    double longest = 0, highest = 1;
    for (const ResultDocument* result : results) {
      longest = std::max(longest, result->timeline.step_time.base());
      for (const Span& span : result->timeline.spans) longest = std::max(longest, span.end.base());
      for (const DeviceTimeline& device : result->timeline.devices)
        highest = std::max(highest, static_cast<double>(device.peak.base()));
      add_stages(*result);
    }
    tick_ = longest > 0 ? longest / kTicks : 1;
    level_ = highest / kLevels;
    for (const auto& [device, stages] : stages_) chunks_ = std::max(chunks_, static_cast<int>(stages.size()));
  }

  std::string run() {
    const TimeScale scale = time_scale(tick_ * kTicks);
    std::string rows;
    for (const auto& [rank, device] : devices()) append(rows, row(rank, device), ",\n");
    std::string names, kinds;
    for (const std::string& name : names_) append(names, script_text(name));
    for (const std::string& kind : kinds_) append(kinds, kind);
    return fmt::format(
        "const view = {{unit: {}, perTick: {}, end: {}, perLevel: {}, levels: {}, names: [{}], kinds: [{}], rows: [\n{}\n]}};\n",
        script_text(scale.unit), tick_ * scale.factor, std::lround(kTicks), level_ / (1 << 20), std::lround(kLevels), names,
        kinds, rows);
  }

 private:
  void add_stages(const ResultDocument& result) {
    for (const Span& span : result.timeline.spans)
      if (span.lane == Lane::Compute && span.action.is_compute()) stages_[span.device].insert(span.action.stage);
  }

  // (rank, device) of the first result's devices that have spans of their own.
  std::set<std::pair<std::int32_t, std::int32_t>> devices() const {
    std::set<std::pair<std::int32_t, std::int32_t>> devices;
    for (const DeviceTimeline& device : results_.front()->timeline.devices)
      if (device.same_as < 0 || stages_.contains(device.device)) devices.emplace(device.rank, device.device);
    return devices;
  }

  std::string row(std::int32_t rank, std::int32_t device) {
    const auto stages = stages_.find(device);
    const std::string held = stages == stages_.end() ? "" : fmt::format("{}", fmt::join(stages->second, ", "));
    std::string parts;
    for (const ResultDocument* result : results_) append(parts, part(*result, device), ",\n");
    return fmt::format(
        "{{name: {}, detail: {}, parts: [{}]}}", script_text(fmt::format("rank {}", rank)),
        script_text(held.empty() ? held : fmt::format("{} {}", stages->second.size() == 1 ? "stage" : "stages", held)), parts);
  }

  // Spans as numbers: kind, start since the start before, length, stage, microbatch, bytes; by lane, compute first.
  std::string part(const ResultDocument& result, std::int32_t device) {
    std::map<Lane, std::string> lanes;
    std::map<Lane, std::int64_t> before;
    const auto& spans = result.timeline.spans;  // sorted by device, lane, start
    auto span = std::lower_bound(spans.begin(), spans.end(), device, [](const Span& s, std::int32_t d) { return s.device < d; });
    for (; span != spans.end() && span->device == device; ++span) {
      if (span->lane != Lane::Compute && !strip_of(span->lane)) continue;
      const std::int64_t start = ticks(span->start.base()), end = ticks(span->end.base());
      std::string& text = lanes[span->lane];
      fmt::format_to(std::back_inserter(text), "{}{},{},{},{},{},{}", text.empty() ? "" : ",", kind_of(*span),
                     start - before[span->lane], end - start, span->action.stage, span->action.microbatch, span->bytes.base());
      before[span->lane] = start;
    }
    std::string text;
    for (const auto& [lane, numbers] : lanes)
      text += fmt::format("{}{{strip: {}, spans: [{}]}}", text.empty() ? "" : ", ",
                          lane == Lane::Compute ? -1 : static_cast<int>(*strip_of(lane)), numbers);
    return fmt::format("{{lanes: [{}], {}}}", text, memory(result, device));
  }

  std::string memory(const ResultDocument& result, std::int32_t device) const {
    for (const DeviceTimeline& own : result.timeline.devices) {
      if (own.device != device) continue;
      std::string curve;
      std::int64_t before = 0;
      for (const MemorySample& sample : own.memory) {
        const std::int64_t at = ticks(sample.at.base());
        fmt::format_to(std::back_inserter(curve), "{}{},{}", curve.empty() ? "" : ",", at - before, levels(sample.allocated));
        before = at;
      }
      return fmt::format("peak: {}, limit: {}, memory: [{}]", levels(own.peak), levels(own.limit), curve);
    }
    return "peak: 0, limit: 0, memory: []";
  }

  std::int64_t ticks(double seconds) const { return std::llround(seconds / tick_); }
  std::int64_t levels(Bytes bytes) const { return std::llround(static_cast<double>(bytes.base()) / level_); }

  // Index into `kinds`: what is said of spans of one look and name.
  std::size_t kind_of(const Span& span) {
    int shade = 0;
    if (span.lane == Lane::Compute && span.action.is_compute()) {
      const auto& stages = stages_[span.device];
      shade = shade_of(static_cast<int>(std::distance(stages.begin(), stages.find(span.action.stage))), chunks_);
    }
    const std::string name = span.label.empty() ? std::string(name_of(span.action.kind)) : span.label;
    const auto [known, is_new] = kind_index_.emplace(std::tuple(span.lane, name, shade), kinds_.size());
    if (is_new) {
      const auto strip = strip_of(span.lane);
      const std::string fill = strip ? fill_of(*strip) : fill_of(span.action.kind, shade, shade_count(chunks_));
      kinds_.push_back(
          fmt::format("{{name: {}, fill: \"{}\", label: {}}}", script_text(name), fill, span.label.empty() ? "false" : "true"));
    }
    return known->second;
  }

  const std::vector<const ResultDocument*>& results_;
  const std::vector<std::string>& names_;
  std::map<std::int32_t, std::set<std::int32_t>> stages_;  // of each device
  std::map<std::tuple<Lane, std::string, int>, std::size_t> kind_index_;
  std::vector<std::string> kinds_;
  double tick_ = 1, level_ = 1;
  int chunks_ = 1;
};

constexpr const char* kStyle = R"css(
.timeline { position: relative; } .timeline canvas { display: block; width: 100%; border: 1px solid var(--idle); cursor: grab; touch-action: pan-y; }
.timeline .bar { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; margin: 6px 0; font-size: 13px; }
.timeline button { font: inherit; color: var(--ink); background: var(--idle); border: 1px solid var(--grid); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
.still { display: none; max-width: 100%; }
@media print { .timeline .bar { display: none; } .timeline.drawn canvas { display: none; } .still { display: block; max-height: 105mm; } }
)css";

std::string key(const std::string& fill, const char* words) {
  return fmt::format(
      "<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><path fill=\"{}\" d=\"M1 1h10v10h-10z\"/></svg> {}</li>", fill,
      words);
}

std::string legend_of(const std::vector<const ResultDocument*>& results) {
  std::set<ActionKind> kinds;
  std::set<StripKind> strips;
  for (const ResultDocument* result : results)
    for (const Span& span : result->timeline.spans) {
      if (span.lane == Lane::Compute) kinds.insert(span.action.kind <= ActionKind::R ? span.action.kind : ActionKind::Opt);
      if (const auto strip = strip_of(span.lane)) strips.insert(*strip);
    }
  std::string items;
  for (const ActionKind kind : kinds) items += key(fill_of(kind, 0, 1), words_for(kind));
  for (const StripKind strip : strips) items += key(fill_of(strip), words_for(strip));
  return fmt::format("<ul class=\"legend\">{}</ul>", items);
}

// For paper, and for browsers without scripts: the picture as an image, whose own style stays inside it.
std::string still(const ResultDocument& result, const std::string& name) {
  // The picture's title names the kind by itself.
  const bool kind_alone = name == name_of(result.kind) && !result.scenario.empty();
  const std::string svg =
      to_svg(picture_of(result.timeline, kind_alone ? std::filesystem::path(result.scenario).stem().string() : name));
  std::string encoded;
  for (const char c : svg) {
    if (c == '%' || c == '#' || c == '"' || c == '<' || c == '>' || c == '&') {
      encoded += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      encoded += c == '\n' ? ' ' : c;
    }
  }
  return fmt::format("<img class=\"still\" alt=\"{}\" src=\"data:image/svg+xml,{}\">\n", escaped(name), encoded);
}

}  // namespace

void add_timeline_view(page::Page& page, const std::vector<const ResultDocument*>& results,
                       const std::vector<std::string>& names) {
  std::size_t spans = 0;
  for (const ResultDocument* result : results) spans += result->timeline.spans.size();
  std::string stills;
  if (spans <= kMostStillSpans)
    for (std::size_t i = 0; i < results.size(); ++i) stills += still(*results[i], names[i]);
  page.add_style(kStyle);
  page.add_markup(
      fmt::format("<noscript><style>.still {{ display: block; }} .timeline {{ display: none; }}</style></noscript>\n<div "
                  "class=\"timeline{}\">{}"
                  "<div class=\"bar\"><button type=\"button\" data-zoom=\"in\">zoom in</button><button type=\"button\" "
                  "data-zoom=\"out\">zoom "
                  "out</button><button type=\"button\" data-zoom=\"all\">whole step</button><span class=\"soft\">wheel with Ctrl "
                  "zooms, dragging "
                  "moves; with the drawing focused: + − ← → 0</span></div>\n<canvas id=\"timeline\" tabindex=\"0\" role=\"img\" "
                  "data-own-hint "
                  "aria-label=\"passes, transfers and memory of every rank over time\"></canvas></div>\n{}",
                  stills.empty() ? "" : " drawn", legend_of(results), stills));
  page.add_script(ViewData(results, names).run() + timeline_script());
}

}  // namespace panpipe
