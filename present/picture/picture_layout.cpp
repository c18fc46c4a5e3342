#include "present/picture/picture_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.hpp"

namespace panpipe::present {
namespace {

// Pixels. Where there is room, a short pass gets kReadable, or what its text needs.
constexpr double kReadable = 15, kFont = 9.5;
constexpr double kNarrowest = 900, kWidest = 2200;
constexpr double kLaneGap = 14, kCurve = 26;

// Pixels that a microbatch number needs.
double readable(const Picture& picture) {
  double widest = kReadable;
  for (const PictureLane& lane : picture.lanes)
    for (const PictureBox& box : lane.boxes) widest = std::max(widest, text_width(box.text(), kFont) + 3);
  return widest;
}

// A tenth of the passes are shorter: measured steps have outliers, and a first stage's input gradient takes no time.
double short_pass(const Picture& picture) {
  std::vector<double> lengths;
  for (const PictureLane& lane : picture.lanes)
    for (const PictureBox& box : lane.boxes)
      if (box.action.microbatch >= 0 && box.end > box.start) lengths.push_back(box.end - box.start);
  if (lengths.empty()) return picture.end;
  const auto tenth = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 10);
  std::nth_element(lengths.begin(), tenth, lengths.end());
  return *tenth;
}

// Boxes of one stretch of overlapping times get tracks, each the first that is free.
void assign_tracks(const std::vector<Extent>& boxes, std::vector<Track>& tracks, std::size_t first, std::size_t end) {
  std::vector<double> free_at;
  for (std::size_t i = first; i < end; ++i) {
    auto track = std::find_if(free_at.begin(), free_at.end(), [&](double at) { return at <= boxes[i].start; });
    if (track == free_at.end()) track = free_at.insert(free_at.end(), 0);
    *track = boxes[i].end;
    tracks[i].track = static_cast<int>(track - free_at.begin());
  }
  for (std::size_t i = first; i < end; ++i) tracks[i].tracks = static_cast<int>(free_at.size());
}

}  // namespace

double text_width(const std::string& text, double font_size) {
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return 0.56 * font_size * static_cast<double>(characters);
}

PictureLayout lay_out(const Picture& picture) {
  PictureLayout layout;
  std::array<bool, kStripKinds> used{};
  double names = 0, peaks = 0;
  for (const PictureLane& lane : picture.lanes) {
    for (const PictureStripe& stripe : lane.stripes) used[at(stripe.kind)] = true;
    names = std::max({names, text_width(lane.name, 12), text_width(lane.detail, 10)});
    peaks = std::max(peaks, text_width("peak " + lane.peak_text, 10));
  }
  for (std::size_t kind = 0; kind < kStripKinds; ++kind)
    if (used[kind]) layout.strips.push_back(static_cast<StripKind>(kind));
  const double end = picture.end > 0 ? picture.end : 1;
  layout.left = 24 + std::min(names, 220.0);
  layout.right = 24 + peaks;
  layout.width = std::clamp(std::round(readable(picture) * end / short_pass(picture)), kNarrowest, kWidest);
  if (!std::isfinite(layout.width)) layout.width = kNarrowest;
  layout.scale = layout.width / end;
  layout.curve = picture.memory_name.empty() ? 0 : kCurve;
  layout.lane = layout.curve_y() + layout.curve + kLaneGap;
  return layout;
}

TimeScale time_scale(double longest_seconds) {
  if (longest_seconds >= 2) return {1, "s"};
  if (longest_seconds >= 2e-3) return {1e3, "ms"};
  return {1e6, "µs"};
}

double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= least * (1 - 1e-9)) return times * power;
  return 10 * power;
}

std::vector<double> axis_ticks(double end, double pixels) {
  std::vector<double> ticks;
  if (!(end > 0)) return {0};
  const double step = round_step(end / std::max(2.0, pixels / 90));
  for (int i = 0; step * i <= end * (1 + 1e-9); ++i) ticks.push_back(step * i);
  return ticks;
}

std::vector<Track> tracks_of(const std::vector<Extent>& boxes) {
  std::vector<Track> tracks(boxes.size());
  std::size_t first = 0;
  double latest = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (i > first && boxes[i].start >= latest) {
      assign_tracks(boxes, tracks, first, i);
      first = i;
    }
    latest = i == first ? boxes[i].end : std::max(latest, boxes[i].end);
  }
  assign_tracks(boxes, tracks, first, boxes.size());
  return tracks;
}

std::vector<Run> runs_of(const std::vector<Extent>& pixels) {
  std::vector<Run> runs;
  bool open = false;  // the last run may take one more
  double begin = 0, end = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const bool narrow = pixels[i].end - pixels[i].start < kNarrow;
    if (open && narrow && pixels[i].start - end < kNarrow && pixels[i].end - begin <= kTogether) {
      runs.back().end = i + 1;
      end = std::max(end, pixels[i].end);
      continue;
    }
    runs.push_back({i, i + 1});
    open = narrow;
    begin = pixels[i].start;
    end = pixels[i].end;
  }
  return runs;
}

Extent extent_of(const Run& run, const std::vector<Extent>& pixels) {
  Extent extent = pixels[run.first];
  for (std::size_t i = run.first; i < run.end; ++i) extent.end = std::max(extent.end, pixels[i].end);
  return extent;
}

double drawn_limit(double limit, double highest) { return limit > 0 && limit <= 1.3 * highest ? limit : 0; }

std::vector<PlacedBox> place_boxes(const PictureLane& lane, const PictureLayout& layout) {
  std::vector<PlacedBox> placed;
  placed.reserve(lane.boxes.size());
  for (const PictureBox& box : lane.boxes)
    if (box.end > box.start) placed.push_back({&box, {layout.x(box.start), layout.x(box.end)}, {}});
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.box->start < b.box->start; });
  std::vector<Extent> times;
  times.reserve(placed.size());
  for (const PlacedBox& box : placed) times.push_back({box.box->start, box.box->end});
  const std::vector<Track> tracks = tracks_of(times);
  for (std::size_t i = 0; i < placed.size(); ++i) placed[i].track = tracks[i];
  return placed;
}

}  // namespace panpipe::present
