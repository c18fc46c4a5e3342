// Plots as SVG: points, lines, bars. They are as wide as the page lets them be, and text keeps its size. Every mark shows its
// hint under the mouse; what is not finite (or not positive on a logarithmic axis) is left out, and the caption says how many.
// Legends name what is drawn and nothing else. Lines join numbers only: things without an order are bars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace panpipe::page {

enum class AxisKind : std::uint8_t { Linear, FromZero, Log };

struct Axis {
  std::string title;  // with its unit: "step time, ms"; where 0 is out of sight, the drawing adds where a y axis starts
  AxisKind kind = AxisKind::Linear;
};

struct Point {
  double x = 0, y = 0;
  int series = 0;  // index into the plot's series; decides colour and shape
  std::string hint;
  bool hollow = false;     // set apart: does not fit, say
  std::string label = "";  // beside the mark, where the plot is wide enough
};

struct Scatter {
  std::string title;
  Axis x, y;
  std::vector<std::string> series;  // names for the legend; may be empty
  std::vector<Point> points;
  double band = 0;     // > 0: both axes alike, the line y = x and this share to both sides of it
  bool front = false;  // joins the points of which none other is better in both (smaller is better); hollow ones take no part
};

constexpr int kIdleColour = 7;  // the palette's grey: for parts that are nothing

// Indices of the points with no other one at or below them in both coordinates, by x; of equal ones the first. O(n log n).
std::vector<std::size_t> pareto_front(const std::vector<Point>& points);

struct PlotLine {
  std::string name;
  std::vector<Point> points;  // drawn in this order; one that is not finite leaves a gap. `series` is not looked at.
};

struct Lines {
  std::string title;
  Axis x, y;
  std::vector<PlotLine> lines;
};

// Without values: the heading of the bars below it.
struct Bar {
  std::string name;
  std::vector<double> values;  // as many as Bars::parts, stacked; negative ones to the left of 0
  std::string hint;
  std::string label = "";  // what is printed at its end
  bool hollow = false;     // set apart, as points are
};

struct Bars {
  std::string title;
  Axis value;
  std::vector<std::string> parts;  // names for the legend; one (or none) gives plain bars
  std::vector<Bar> bars;
  std::vector<int> colours = {};  // of the parts, as indices of the palette's series; empty: in turn
};

std::string to_html(const Scatter& plot);
std::string to_html(const Lines& plot);
std::string to_html(const Bars& plot);

}  // namespace panpipe::page
