// What every plot shares: the frame with its axes, the legend, marks with hints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "costmodel/page/axis.hpp"

namespace panpipe::page {

constexpr double kChartWidth = 760;

class Chart {
 public:
  // Axes that cover the values given, in a plot area of `height` pixels.
  Chart(const Axis& x, const std::vector<double>& xs, const Axis& y, const std::vector<double>& ys, double height);

  const AxisScale& x() const { return x_; }
  const AxisScale& y() const { return y_; }
  bool can_show(const Point& point) const { return x_.can_show(point.x) && y_.can_show(point.y); }

  void add(const std::string& markup) { marks_ += markup; }  // inside the plot area, in order
  void mark(const Point& point);                             // a point in the colour and shape of its series
  std::size_t left_out = 0;                                  // points that could not be shown

  // The whole figure. `names`: legend, in the order of the series; `bars`: its keys are boxes.
  std::string figure(const std::string& title, const std::vector<std::string>& names, bool bars = false,
                     const std::vector<int>& colours = {}) const;

 private:
  std::string axes() const;

  Axis x_axis_, y_axis_;
  double left_, bottom_, height_;  // margins; height of the plot area
  bool slanted_ = false;           // names of categories, where they are long
  AxisScale x_, y_;
  std::string marks_;
};

// A marker of the series' shape around (x, y), as the d attribute of a path.
std::string marker(std::size_t series, double x, double y);
// "<title>...</title>", nothing when empty.
std::string hint_element(const std::string& hint);
// Keys and names of the series in one line, as HTML.
std::string legend(const std::vector<std::string>& names, bool bars, const std::vector<int>& colours = {});
// Of the i-th part: its index in the palette.
std::size_t colour_of(const std::vector<int>& colours, std::size_t i);

}  // namespace panpipe::page
