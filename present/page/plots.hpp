// Plots as SVG: points, lines, bars. They are as wide as the page allows, and text keeps its size. Every mark shows its hint
// under the mouse. Values that are not finite (or not positive on a logarithmic axis) are left out, and the caption states how
// many. Legends name only drawn series. Lines join numbers only: unordered things are bars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace panpipe::present {

enum class AxisKind : std::uint8_t { Linear, FromZero, Log };

struct Axis {
  std::string title;  // with its unit: "step time, ms"; if 0 is out of sight, the drawing adds the start of a y axis
  AxisKind kind = AxisKind::Linear;
  std::vector<double> ticks = {};  // where values were chosen, as in a sweep: these; else round ones
};

struct Point {
  double x = 0, y = 0;
  int series = 0;  // index into the plot's series; determines colour and shape
  std::string hint;
  bool hollow = false;     // marks a different kind of point, such as a plan that does not fit
  std::string label = "";  // next to the mark, if the plot is wide enough
};

struct Scatter {
  std::string title;
  Axis x, y;
  std::vector<std::string> series;  // names for the legend; may be empty
  std::vector<Point> points;
  double band = 0;  // > 0: equal axes, the line y = x and a band of this share on both sides
  bool front =
      false;  // joins the points that no other point beats in both coordinates (smaller is better); hollow ones are ignored
};

constexpr int kIdleColour = 7;  // the palette's grey, for idle parts

// Indices of the points with no other one at or below them in both coordinates, sorted by x; the first of equal ones. O(n log n).
std::vector<std::size_t> pareto_front(const std::vector<Point>& points);

struct PlotLine {
  std::string name;
  std::vector<Point> points;  // drawn in this order; a point that is not finite leaves a gap; `series` is ignored
};

struct Lines {
  std::string title;
  Axis x, y;
  std::vector<PlotLine> lines;
};

// Without values it is the heading of the bars below it.
struct Bar {
  std::string name;
  std::vector<double> values;  // one per Bars::parts, stacked; negative ones to the left of 0
  std::string hint;
  std::string label = "";  // printed at its end
  bool hollow = false;     // marks a different kind of bar, as for points
};

struct Bars {
  std::string title;
  Axis value;
  std::vector<std::string> parts;  // names for the legend; one or none gives plain bars
  std::vector<Bar> bars;
  std::vector<int> colours = {};  // of the parts, as palette indices; empty: in turn
};

std::string to_html(const Scatter& plot);
std::string to_html(const Lines& plot);
std::string to_html(const Bars& plot);

}  // namespace panpipe::present
