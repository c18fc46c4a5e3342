#include "study/report/timeline_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/text/json_writer.hpp"
#include "present/page/page_table.hpp"
#include "present/picture/markup.hpp"
#include "present/picture/palette.hpp"
#include "present/picture/picture_layout.hpp"
#include "present/picture/timeline_picture.hpp"

namespace panpipe {
namespace {

// Times as whole parts of the longest step: ten times finer than a pixel at a hundredfold zoom. Memory as parts of the highest
// peak.
constexpr double kTicks = 2e6, kLevels = 5000;
constexpr std::size_t kMostStillSpans = 6000;  // a larger picture for the printer would make most of the page

// JSON inside a script: no "<" of a text can end it.
std::string for_script(const std::string& json) {
  std::string out;
  for (const char c : json) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

class ViewData {
 public:
  ViewData(const std::vector<const ResultDocument*>& results, const std::vector<std::string>& names)
      : results_(results), names_(names), rows_(rows_by_rank(results)) {
    double longest = 0, highest = 1, limit = 0;
    for (const ResultDocument* result : results) {
      longest = std::max(longest, result->timeline.step_time.base());
      for (const Span& span : result->timeline.spans) longest = std::max(longest, span.end.base());
    }
    for (const RankRow& row : rows_)
      for (const auto& part : row.of) {
        if (!part) continue;
        highest = std::max(highest, static_cast<double>(part->device->peak.base()));
        limit = std::max(limit, static_cast<double>(part->device->limit.base()));
        chunks_ = std::max(chunks_, static_cast<int>(part->stages.size()));
      }
    has_limit_ = drawn_limit(limit, highest) > 0;
    tick_ = longest > 0 ? longest / kTicks : 1;
    level_ = std::max(highest, drawn_limit(limit, highest)) / kLevels;
  }

  bool has_limit() const { return has_limit_; }

  std::string run() {
    const TimeScale scale = time_scale(tick_ * kTicks);
    out_.object().field("unit", scale.unit).field("perTick", tick_ * scale.factor).field("end", std::lround(kTicks));
    out_.field("perLevel", level_ / (1 << 20)).field("levels", std::lround(kLevels)).field("hasLimit", has_limit_);
    out_.field("narrow", kNarrow).field("together", kTogether).field("visible", kVisible).field("names", names_);
    out_.list("rows", JsonLayout::Flush);
    for (const RankRow& row : rows_) {
      out_.object(JsonLayout::Dense).field("name", fmt::format("rank {}", row.rank)).list("parts");
      for (std::size_t i = 0; i < results_.size(); ++i)
        if (row.of[i]) write_part(i, *row.of[i]);
      out_.end().end();
    }
    out_.end().list("kinds");
    for (const Kind& kind : kinds_)
      out_.object()
          .field("name", kind.name)
          .field("fill", kind.fill)
          .field("ink", kind.ink)
          .field("label", kind.is_label)
          .field("order", kind.order)
          .field("track", kind.track.track)
          .field("tracks", kind.track.tracks)
          .end();
    return fmt::format("const view = {};\n", for_script(out_.end().end().finish()));
  }

 private:
  // What is said of spans of one look, name and place in the height of their lane.
  struct Kind {
    std::string name, fill, ink;
    bool is_label = false;  // the name is the span's own, not that of a pass
    int order = 0;          // from the bottom on, where several are drawn together
    Track track;
  };

  // Spans as numbers: kind, start since the start before, length, stage, microbatch, bytes; by lane, compute first.
  void write_part(std::size_t which, const DrawnDevice& drawn) {
    const std::int32_t device = drawn.device->device;
    const auto& spans = results_[which]->timeline.spans;  // sorted by device, lane, start
    auto span = std::lower_bound(spans.begin(), spans.end(), device, [](const Span& s, std::int32_t d) { return s.device < d; });
    out_.object().field("of", which).field("device", device).field("detail", drawn.text()).list("lanes");
    while (span != spans.end() && span->device == device) {
      const auto first = span;
      while (span != spans.end() && span->device == device && span->lane == first->lane) ++span;
      if (first->lane == Lane::Compute || strip_of(first->lane)) write_lane(first, span, drawn);
    }
    out_.end();
    write_memory(*drawn.device);
    out_.end();
  }

  void write_lane(std::vector<Span>::const_iterator first, std::vector<Span>::const_iterator end, const DrawnDevice& drawn) {
    const Lane lane = first->lane;
    std::vector<Track> tracks(static_cast<std::size_t>(end - first));
    if (lane == Lane::Compute) {
      std::vector<Extent> times;
      for (auto span = first; span != end; ++span) times.push_back({span->start.base(), span->end.base()});
      tracks = tracks_of(times);
    }
    std::vector<std::int64_t> numbers;
    std::int64_t before = 0;
    for (auto span = first; span != end; ++span) {
      const std::int64_t start = ticks(span->start.base());
      numbers.insert(numbers.end(), {kind_of(*span, drawn, tracks[static_cast<std::size_t>(span - first)]), start - before,
                                     ticks(span->end.base()) - start, std::int64_t{span->action.stage},
                                     std::int64_t{span->action.microbatch}, span->bytes.base()});
      before = start;
    }
    out_.object().field("strip", lane == Lane::Compute ? -1 : static_cast<int>(*strip_of(lane))).field("spans", numbers).end();
  }

  void write_memory(const DeviceTimeline& own) {
    std::vector<std::int64_t> curve;
    std::int64_t before = 0;
    for (const MemorySample& sample : own.memory) {
      const std::int64_t at = ticks(sample.at.base());
      curve.insert(curve.end(), {at - before, levels(sample.allocated)});
      before = at;
    }
    out_.field("peak", levels(own.peak)).field("limit", levels(own.limit));
    out_.field("memory", curve);
  }

  std::int64_t ticks(double seconds) const { return std::llround(seconds / tick_); }
  std::int64_t levels(Bytes bytes) const { return std::llround(static_cast<double>(bytes.base()) / level_); }

  // Index into `kinds_`.
  std::int64_t kind_of(const Span& span, const DrawnDevice& drawn, const Track& track) {
    const bool is_pass = span.lane == Lane::Compute && span.action.is_compute();
    const int shade = is_pass ? shade_of(drawn.chunk_of(span.action.stage), chunks_) : 0;
    const std::string name = span.label.empty() ? std::string(name_of(span.action.kind)) : span.label;
    const auto [known, is_new] =
        kind_index_.emplace(std::tuple(span.lane, name, shade, track.track, track.tracks), kinds_.size());
    if (is_new) {
      const auto strip = strip_of(span.lane);
      const int shades = shade_count(chunks_);
      kinds_.push_back({name, strip ? fill_of(*strip) : fill_of(span.action.kind, shade, shades),
                        ink_of(span.action.kind, shade, shades), !span.label.empty(),
                        static_cast<int>(span.action.kind) * shades + shade, track});
    }
    return known->second;
  }

  const std::vector<const ResultDocument*>& results_;
  const std::vector<std::string>& names_;
  std::vector<RankRow> rows_;
  std::map<std::tuple<Lane, std::string, int, int, int>, std::int64_t> kind_index_;
  std::vector<Kind> kinds_;
  JsonWriter out_;
  double tick_ = 1, level_ = 1;
  int chunks_ = 1;
  bool has_limit_ = false;
};

constexpr const char* kStyle = R"css(
.timeline { position: relative; } .timeline canvas { display: block; width: 100%; border: 1px solid var(--idle); cursor: grab; touch-action: pan-y; }
.timeline .bar { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; margin: 6px 0; font-size: 13px; }
.timeline button { font: inherit; color: var(--ink); background: var(--idle); border: 1px solid var(--grid); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
.still { display: none; max-width: 100%; }
@media print { .timeline .bar { display: none; } .timeline.drawn canvas { display: none; } .still { display: block; max-height: 105mm; } }
)css";

std::string key(const std::string& fill, const char* words, const char* shape = "M1 1h10v10h-10z") {
  return fmt::format("<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><path fill=\"{}\" d=\"{}\"/></svg> {}</li>", fill,
                     shape, words);
}

std::string legend_of(const std::vector<const ResultDocument*>& results, bool has_limit) {
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
  if (has_limit) items += key("var(--over)", "limit of a device's memory", "M0 5h12v2h-12z");
  items += "<li id=\"together\" hidden>where passes are too narrow to be seen, heights are shares of the time</li>";
  return fmt::format("<ul class=\"legend\">{}</ul>", items);
}

// For paper, and for browsers without scripts: the picture as an image, whose own style stays inside it.
std::string still(const ResultDocument& result, const std::string& name) {
  // The picture's title names the kind by itself.
  const bool kind_alone = name == name_of(result.kind) && !result.scenario.empty();
  const std::string svg =
      to_svg(picture_of(result.timeline, kind_alone ? std::filesystem::path(result.scenario).stem().string() : name));
  return fmt::format("<img class=\"still\" alt=\"{}\" src=\"{}\">\n", escaped(name), image_address(svg));
}

}  // namespace

std::vector<RankRow> rows_by_rank(const std::vector<const ResultDocument*>& results) {
  std::map<std::pair<std::int32_t, int>, RankRow> rows;  // by rank, and by the number of the lane among its rank's
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::map<std::int32_t, int> lanes;
    for (DrawnDevice& drawn : drawn_devices(results[i]->timeline)) {
      const std::int32_t rank = drawn.device->rank;
      RankRow& row = rows[{rank, lanes[rank]++}];
      row.rank = rank;
      row.of.resize(results.size());
      row.of[i] = std::move(drawn);
    }
  }
  std::vector<RankRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

void add_timeline_view(page::Page& page, const std::vector<const ResultDocument*>& results,
                       const std::vector<std::string>& names) {
  std::size_t spans = 0;
  for (const ResultDocument* result : results) spans += result->timeline.spans.size();
  std::string stills;
  if (spans <= kMostStillSpans)
    for (std::size_t i = 0; i < results.size(); ++i) stills += still(*results[i], names[i]);
  ViewData data(results, names);
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
                  stills.empty() ? "" : " drawn", legend_of(results, data.has_limit()), stills));
  page.add_script(data.run() + timeline_script());
}

}  // namespace panpipe
