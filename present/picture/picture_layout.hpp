// The layout of a picture in pixels, and the unit of its times.
#pragma once

#include <string>
#include <vector>

#include "present/picture/picture.hpp"

namespace panpipe::present {

struct PictureLayout {
  double left = 0, width = 0;  // of the time axis
  double right = 0;            // margin after it, for the peaks
  double top = 0;              // of the first lane
  double lane = 0;             // height of a lane including the strips and curve below it, and the gap
  double box = 24, strip = 4, strip_gap = 1, curve = 0;
  double scale = 1;               // pixels per unit of time
  std::vector<StripKind> strips;  // those in use

  double x(double time) const { return left + time * scale; }
  double strip_y(std::size_t index) const { return box + 2 + static_cast<double>(index) * (strip + strip_gap); }
  double curve_y() const { return strip_y(strips.size()) + 3; }
  double total_width() const { return left + width + right; }
};

// Wide enough, within limits, for microbatch numbers in short passes.
PictureLayout lay_out(const Picture& picture);

struct TimeScale {
  double factor;  // from seconds
  const char* unit;
};
TimeScale time_scale(double longest_seconds);

// The smallest of 1, 2, 5 times a power of ten that is at least `least` (> 0).
double round_step(double least);

// Times of the axis labels: whole multiples of 1, 2 or 5 times a power of ten.
std::vector<double> axis_ticks(double end, double pixels);

// From and to: of time, or of pixels.
struct Extent {
  double start = 0, end = 0;
};

// Boxes that overlap in time share the height.
struct Track {
  int track = 0, tracks = 1;
};
std::vector<Track> tracks_of(const std::vector<Extent>& boxes);  // given by their starts, ascending

// Boxes that are too narrow to be seen: neighbours below kNarrow pixels are drawn together, up to kTogether pixels wide, each
// kind as high as its share of that time. A single colour for them would be that of whichever came first.
constexpr double kNarrow = 1, kTogether = 4, kVisible = 0.5;  // kVisible: width of what is drawn alone, at least
struct Run {
  std::size_t first = 0, end = 0;  // of the boxes; one alone, or several to be drawn together
};
std::vector<Run> runs_of(const std::vector<Extent>& pixels);  // by their starts, ascending
// The interval of a run: from its first start to its last end.
Extent extent_of(const Run& run, const std::vector<Extent>& pixels);

// A limit far above the curves would press them flat: 0 where it is not drawn.
double drawn_limit(double limit, double highest);

// A box with its place in the drawing.
struct PlacedBox {
  const PictureBox* box = nullptr;
  Extent x;
  Track track;
};
std::vector<PlacedBox> place_boxes(const PictureLane& lane, const PictureLayout& layout);  // by their starts

double text_width(const std::string& text, double font_size);  // estimate, UTF-8

}  // namespace panpipe::present
